/** Two models in one server: one is flooded, and the predictions of the other must stay as fast as they are. */
import { median } from "../../../bench/numbers.ts";
import { tempDir } from "../../helpers/fixture.ts";
import type { Fault, Injection } from "../fault.ts";
import { timesOfGoodClient } from "../good-client.ts";
import { TestedServer } from "../tested-server.ts";
import { predict } from "../traffic.ts";

const FLOODED = "/models/torture";
const QUIET = "/models/quiet";
/** Number of clients of the flood. Each sends its next request when it has an answer. */
const CLIENTS = 128;
/** Inputs of the floods. A batch of them takes 16 ms: the inputs sleep, or hold a core. */
const FLOODS = { sleeps: { sleepMs: 1 }, computes: { computeMs: 1 } };
type FloodKind = keyof typeof FLOODS;
/**
 * Requests before the long form measures. Until then JavaScriptCore compiles the server's code, on threads that compete
 * with the server for the cores.
 */
const WARM_UP = { requests: 100_000, clients: 32, ofGoodClient: 100 };
const PHASE_MS = { short: 500, long: 8000 };
const ROUNDS = { short: 1, long: 5 };
/**
 * Allowed ratio of latencies with and without the flood. Only the long form checks it: other programs slow down a
 * short run.
 */
const MAX_RATIO = 1.5;

export const models: Fault = {
  name: "models",
  title: "a flood of one model leaves the predictions of the other as they are",
  async inject(injection) {
    const { home } = injection;
    await using file = await listFile();
    const args = ["--models", file.path, "--keep-alive", "600"];
    await using server = await TestedServer.start({ home, args });
    for (const model of [FLOODED, QUIET]) await predict(server.url, [{ x: 1 }], `${model}/predictions`);
    if (injection.isLong) await warmUp(server.url);
    for (const kind of ["sleeps", "computes"] as const) await flood(injection, server, kind);
  },
};

/** A file for `--models` that serves the same model under a second name. */
async function listFile() {
  const dir = await tempDir();
  const path = dir.join("models.toml");
  await Bun.write(path, '[[model]]\nmodel = "torture"\nname = "quiet"\n');
  return { path, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

async function warmUp(url: URL): Promise<void> {
  const inputs = Array.from({ length: 8 }, (_, x) => ({ x }));
  let count = 0;
  const client = async (model: string) => {
    for (; count < WARM_UP.requests; count++)
      await predict(url, count % 2 === 0 ? inputs : [{ x: 1 }], `${model}/predictions`);
  };
  await Promise.all(Array.from({ length: WARM_UP.clients }, (_, i) => client(i % 2 === 0 ? FLOODED : QUIET)));
}

async function flood({ tally, isLong }: Injection, server: TestedServer, kind: FloodKind): Promise<void> {
  const uncounted = isLong ? WARM_UP.ofGoodClient : 0;
  const request = { url: new URL(`${QUIET}/predictions`, server.url).href, body: '[{"x": 2}]', uncounted };
  const phaseMs = isLong ? PHASE_MS.long : PHASE_MS.short;
  const ratios: number[] = [];
  for (let round = 0; round < (isLong ? ROUNDS.long : ROUNDS.short); round++) {
    await tally.inject(async () => {
      const alone = await timesOfGoodClient(request, Bun.sleep(phaseMs));
      const flooding = new Flood(server.url, kind);
      // Half a phase before the measurement, in which the server learns the load.
      await Bun.sleep(phaseMs / 2);
      const beside = await timesOfGoodClient(request, Bun.sleep(phaseMs));
      const answers = await flooding.stop();
      tally.counts.checked += alone.length + beside.length;
      const [quietMs, floodedMs] = [p99(alone), p99(beside)];
      ratios.push(floodedMs / quietMs);
      tally.note(
        `p99 of the quiet model ${quietMs.toFixed(1)} ms alone (${alone.length} requests), ${floodedMs.toFixed(1)} ms beside a flood that ${kind} (${beside.length} requests); the flood got ${[...answers].map(([status, count]) => `${count} × ${status}`).join(", ")}`,
      );
      const wrong = [...answers.keys()].filter((status) => ![200, 429].includes(status));
      if (wrong.length > 0) tally.found("wrong", `the flood was answered with ${wrong.join(", ")}`);
      if (!answers.has(200)) tally.found("stuck", "no request of the flood was answered with outputs");
    });
  }
  const ratio = median(ratios);
  tally.note(`p99 of the quiet model beside a flood that ${kind}: ${ratio.toFixed(2)} of its p99 alone`);
  if (isLong && ratio > MAX_RATIO)
    tally.found("stuck", `a flood makes the p99 of the other model ${ratio.toFixed(2)} times as long`);
}

function p99(ascending: readonly number[]): number {
  return ascending[Math.floor(0.99 * ascending.length)] ?? Number.NaN;
}

class Flood {
  readonly #answers = new Map<number, number>();
  readonly #clients: Promise<unknown>;
  #isOver = false;

  constructor(url: URL, kind: FloodKind) {
    const body = JSON.stringify(Array.from({ length: 8 }, (_, x) => ({ x, ...FLOODS[kind] })));
    const path = new URL(`${FLOODED}/predictions`, url);
    this.#clients = Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        while (!this.#isOver) {
          const headers = { "Content-Type": "application/json", Prefer: "wait=60" };
          const answer = await fetch(path, { method: "POST", headers, body });
          await answer.arrayBuffer();
          this.#answers.set(answer.status, (this.#answers.get(answer.status) ?? 0) + 1);
        }
      }),
    );
  }

  /** Ends the flood. @returns the number of answers by status */
  async stop(): Promise<ReadonlyMap<number, number>> {
    this.#isOver = true;
    await this.#clients;
    return this.#answers;
  }
}
