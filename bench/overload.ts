/** More load than a server can do, from clients that leave when they have waited for three seconds: how much is still answered in time. */
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, folderOfAll } from "./networks.ts";
import { OfferedLoad } from "./offered.ts";
import { ms, perSecond } from "./quantity.ts";
import { Target } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

/** Matrix products of the model's forward pass: batches of four take about 20 ms, so that the load is not what limits. */
const BODY = JSON.stringify([{ x: 1, steps: 30 }]);
const PATIENCE_MS = 3000;
const CONNECTIONS = 32;
/** The queue has to fill up, and clients to leave, before there is anything to be seen. */
const LONG_TURNS = 5;
const FACTORS = [2, 10];
/** Predictions that no client waits for. */
const POLLED = 1000;

export async function overload(options: CaseOptions): Promise<Measurement[]> {
  const { repeats, canary } = options;
  const seconds = options.seconds * LONG_TURNS;
  await buildModel(join(root, "test/models/lab"));
  const bodies = join(folderOfAll, "overload.txt");
  await Bun.write(bodies, `${BODY}\n`);
  await using served = await Target.served("lab");
  await using load = new OfferedLoad({ url: `${served.url}/predictions`, bodies });
  const peak = async () =>
    (await served.load({ bodies, connections: CONNECTIONS, seconds: options.seconds })).perSecond;
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
      limit = await peak();
      return limit;
    },
    async () => {
      const { factor, polled } = cases[turn++ % cases.length] ?? { factor: 1, polled: 0 };
      const ids = await Promise.all(Array.from({ length: polled }, () => create(served.url)));
      const before = await succeeded(served.url);
      const begin = performance.now();
      const done = await load.run({ perSecond: factor * limit, seconds, patienceMs: PATIENCE_MS });
      const took = (performance.now() - begin) / 1000;
      const others = ((await succeeded(served.url)) - before) / took - (done.perSecond * seconds) / took;
      await Promise.all(ids.map((id) => fetch(`${served.url}/predictions/${id}/cancel`, { method: "POST" })));
      return { factor, polled, others, ...done };
    },
  );
  return cases.map(({ factor, polled }) => {
    const own = turns.filter(({ measured }) => measured.factor === factor && measured.polled === polled);
    const values = own.map(({ before, measured }) => (measured.perSecond + measured.others) / before);
    const middle = (pick: (done: (typeof own)[number]["measured"]) => number) =>
      median(own.map(({ measured }) => pick(measured)));
    return {
      subject: `lab, ${factor} × the peak, clients leave after ${PATIENCE_MS / 1000} s${polled > 0 ? ", polling clients beside them" : ""}`,
      compared: "answered in time, of the peak",
      unit: "",
      goal: atLeast(0.95),
      reached: spread(values),
      values,
      behind: [
        `${perSecond(middle((done) => done.perSecond))} to ${perSecond(median(own.map(({ before }) => before)))}`,
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

async function create(url: string): Promise<string> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${url}/predictions`, { method: "POST", headers, body: BODY });
  return String(response.headers.get("location")?.split("/").at(-1));
}

async function succeeded(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^sconce_predictions_total\{status="success"\} (\S+)$/m.exec(text)?.[1] ?? 0);
}
