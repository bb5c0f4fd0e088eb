/** More load than a server can do, from clients that leave when they have waited for three seconds: how much is still answered in time. */
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, buildOwnModel, folderOfAll } from "./networks.ts";
import { OfferedLoad } from "./offered.ts";
import { ms, perSecond } from "./quantity.ts";
import { Target } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

/** Batches of four of both take about 20 ms, so that the load is not what limits. */
const models = {
  device: { body: JSON.stringify([{ x: 1 }]), shares: "", goal: atLeast(0.95) },
  /** Of its forward pass, which are matrix products, the load and its refusals take the processor. */
  lab: { body: JSON.stringify([{ x: 1, steps: 30 }]), shares: " on the cores of server and load", goal: undefined },
} as const;
const PATIENCE_MS = 3000;
const CONNECTIONS = 32;
/** The queue has to fill up, and clients to leave, before there is anything to be seen. */
const LONG_TURNS = 5;
const FACTORS = [2, 10];
/** Predictions that no client waits for. */
const POLLED = 1000;

export async function overload(options: CaseOptions): Promise<Measurement[]> {
  const lab = join(root, "test/models/lab");
  await buildModel(lab);
  mkdirSync(join(folderOfAll, "device"), { recursive: true });
  copyFileSync(join(lab, "lab.pt"), join(folderOfAll, "device/weights.pt"));
  await buildOwnModel("device");
  return [...(await overloadOf("device", options)), ...(await overloadOf("lab", options))];
}

async function overloadOf(name: keyof typeof models, options: CaseOptions): Promise<Measurement[]> {
  const { repeats, canary } = options;
  const { body, shares, goal } = models[name];
  const seconds = options.seconds * LONG_TURNS;
  const bodies = join(folderOfAll, "overload.txt");
  await Bun.write(bodies, `${body}\n`);
  await using served = await Target.served(name);
  await using load = new OfferedLoad({ url: `${served.url}/predictions`, bodies });
  const batchMs = async <T>(during: () => Promise<T>): Promise<T & { batchMs: number }> => {
    const before = await served.work();
    const done = await during();
    const after = await served.work();
    return { ...done, batchMs: (1000 * (after.batchSeconds - before.batchSeconds)) / (after.batches - before.batches) };
  };
  // By the slope: what is on its way at the end is a good part of so short a time.
  const atPeak = { bodies, connections: CONNECTIONS, seconds: options.seconds, hasSlowBatches: true };
  const peak = () => batchMs(() => served.load(atPeak));
  await peak();
  const cases = FACTORS.flatMap((factor) => [
    { factor, polled: 0 },
    { factor, polled: POLLED },
  ]);
  let turn = 0;
  let limit = 0;
  const turns = await inTurns(
    repeats * cases.length,
    async () => {
      await canary.listen();
      const done = await peak();
      limit = done.perSecond;
      return done;
    },
    async () => {
      const { factor, polled } = cases[turn++ % cases.length] ?? { factor: 1, polled: 0 };
      const ids = await Promise.all(Array.from({ length: polled }, () => create(served.url, body)));
      const before = await succeeded(served.url);
      const [done, after] = await Promise.all([
        batchMs(() => load.run({ perSecond: factor * limit, seconds, patienceMs: PATIENCE_MS })),
        Bun.sleep(seconds * 1000).then(() => succeeded(served.url)),
      ]);
      // Else the difference is answers on their way.
      const others = polled === 0 ? 0 : Math.max(0, (after - before) / seconds - done.perSecond);
      await Promise.all(ids.map((id) => fetch(`${served.url}/predictions/${id}/cancel`, { method: "POST" })));
      return { factor, polled, others, ...done };
    },
  );
  return cases.map(({ factor, polled }) => {
    const own = turns.filter(({ measured }) => measured.factor === factor && measured.polled === polled);
    const values = own.map(({ before, measured }) => (measured.perSecond + measured.others) / before.perSecond);
    const middle = (pick: (done: (typeof own)[number]["measured"]) => number) =>
      median(own.map(({ measured }) => pick(measured)));
    return {
      subject: `${name}${shares}, ${factor} × the peak, clients leave after ${PATIENCE_MS / 1000} s${polled > 0 ? ", polling clients beside them" : ""}`,
      compared: "answered in time, of the peak",
      unit: "",
      ...(goal && { goal }),
      reached: spread(values),
      values,
      behind: [
        `${perSecond(middle((done) => done.perSecond))} to ${perSecond(median(own.map(({ before }) => before.perSecond)))}`,
        `a batch ${ms(middle((done) => done.batchMs))} to ${ms(median(own.map(({ before }) => before.batchMs)))}`,
        ...(polled > 0 ? [`polled ${perSecond(middle((done) => done.others))}`] : []),
        `p50 ${ms(middle((done) => done.p50Ms))}`,
        `p99 ${ms(middle((done) => done.p99Ms))}`,
        `refused p50 ${ms(middle((done) => done.refusedP50Ms))}`,
        `p99 ${ms(middle((done) => done.refusedP99Ms))}`,
        `${sum(own.map(({ measured }) => measured.failed.refused))} refused`,
        `${sum(own.map(({ measured }) => measured.failed.left))} left`,
      ].join(", "),
      failed: sum(own.map(({ measured }) => measured.failed.lost + measured.failed.unanswered)),
      cores: canary.shares(),
    };
  });
}

async function create(url: string, body: string): Promise<string> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${url}/predictions`, { method: "POST", headers, body });
  return String(response.headers.get("location")?.split("/").at(-1));
}

async function succeeded(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^sconce_predictions_total\{status="success"\} (\S+)$/m.exec(text)?.[1] ?? 0);
}
