/** What a server says of itself: the memory that stays of predictions that have gone, and how long a large request holds its event loop. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { warmUpSeconds } from "./comparison.ts";
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { type ConnectedName, connectedNetwork } from "./networks.ts";
import { ms } from "./report.ts";
import type { Server } from "./target.ts";
import { sconce } from "./targets.ts";
import { median, percentile } from "./turns.ts";

const PREDICTIONS = 200_000;
const WARM_UP = 50_000;
/** Clients that ask for one prediction at a time beside the large requests, and how long they think in between. */
const OTHERS = 4;
const THINKING_MS = 2;

const command = (name: string) => [process.execPath, join(import.meta.dir, "asked-server.ts"), name];
const answerSchema = z.object({ heldMs: z.number(), residentBytes: z.number(), heapBytes: z.number() });
const askOf = async ({ child }: Server, collect = false) => answerSchema.parse(await child.ask({ collect }));

/** What stays once as many predictions are kept as may be. */
export async function memory({ seconds, canary }: CaseOptions): Promise<Measurement> {
  await using served = await sconce({ command, flags: ["--retain-count", "10000"] })(await connectedNetwork("tiny"));
  let failed = 0;
  const predict = async (count: number) => {
    let answered = 0;
    while (answered < count) {
      const done = await served.measure({ connections: 64, seconds });
      answered += done.perSecond * seconds;
      failed += done.failed ?? 0;
    }
  };
  await served.check();
  await predict(WARM_UP);
  await canary.listen();
  const begin = await askOf(served, true);
  await predict(PREDICTIONS);
  const end = await askOf(served, true);
  const megabytes = (pick: (of: typeof begin) => number) =>
    [begin, end].map((of) => `${(pick(of) / 1e6).toFixed(1)} MB`).join(" to ");
  return {
    subject: "memory of tiny",
    compared: `added by ${PREDICTIONS / 1000},000 predictions`,
    unit: "MB",
    goal: atMost(20),
    values: [(end.residentBytes - begin.residentBytes) / 1e6],
    behind: `resident ${megabytes((of) => of.residentBytes)}, heap ${megabytes((of) => of.heapBytes)}`,
    failed,
  };
}

/** Requests of thousands of inputs, one after the other: how long they hold the event loop, and what others feel of them. */
export async function largeRequest(
  name: ConnectedName,
  { inputs, heldMs: mostMs, flags = [] }: { inputs: number; heldMs: number; flags?: readonly string[] },
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement[]> {
  const network = await connectedNetwork(name);
  await using served = await sconce({ command, flags })(network);
  const bodyOf = (count: number) => {
    const all = Array.from({ length: count }, (_, i) => network.requests[i % network.requests.length]);
    return new TextEncoder().encode(JSON.stringify(all));
  };
  // Made once: the clients that are measured share a thread with this.
  const [one, many] = [bodyOf(1), bodyOf(inputs)];
  await served.check();
  await served.measure({ connections: 64, seconds: warmUpSeconds(seconds) });
  await predict(served, many, inputs);
  await canary.listen();
  const times: number[] = [];
  let isOver = false;
  const others = Array.from({ length: OTHERS }, async () => {
    while (!isOver) {
      const begin = performance.now();
      await predict(served, one, 1);
      times.push(performance.now() - begin);
      await Bun.sleep(THINKING_MS);
    }
  });
  await Bun.sleep(500);
  const alone = `${ms(median(times))} without it`;
  await askOf(served);
  const [p99s, held]: [number[], number[]] = [[], []];
  for (let i = 0; i < repeats; i++) {
    times.length = 0;
    await predict(served, many, inputs);
    p99s.push(percentile(times, 0.99));
    held.push((await askOf(served)).heldMs);
  }
  isOver = true;
  await Promise.all(others);
  await canary.listen();
  const shared = { subject: `${name}, ${inputs.toLocaleString("en")} inputs in a request`, unit: "ms" } as const;
  return [
    { ...shared, compared: "event loop held", goal: atMost(mostMs), values: [Math.max(...held)] },
    { ...shared, compared: "others' p99 meanwhile", goal: atMost(50), values: p99s, behind: `p50 ${alone}` },
  ];
}

/** Sends a request of `count` inputs and waits for all outputs. */
async function predict({ url }: Server, body: Uint8Array<ArrayBuffer>, count: number): Promise<void> {
  const headers = { "Content-Type": "application/json", Prefer: "wait=300" };
  const response = await fetch(url, { method: "POST", headers, body });
  const { outputs } = outputsSchema.parse(await response.json());
  if (outputs.length !== count) throw new Error(`${outputs.length} outputs for ${count} inputs`);
}

const outputsSchema = z.looseObject({ status: z.literal("success"), outputs: z.array(z.unknown()) });
