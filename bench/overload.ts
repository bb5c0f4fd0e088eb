/** More load than a server can do, from clients that leave when they have waited for three seconds: how much is still answered in time. */
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildOwnModel, folderOfAll } from "./networks.ts";
import { OfferedLoad } from "./offered.ts";
import { ms, perSecond } from "./report.ts";
import type { Server } from "./target.ts";
import { sconce } from "./targets.ts";
import { inTurns, median, sum } from "./turns.ts";

const PATIENCE_MS = 3000;
const CONNECTIONS = 32;
/** The queue has to fill up, and clients to leave, before there is anything to be seen. */
const LONG_TURNS = 5;
/** How many times the peak is offered, and how many predictions are there meanwhile that no client waits for. */
const loads = [2, 10].flatMap((factor) => [0, 1000].map((polled) => ({ factor, polled })));

/** Of a device whose batches take 20 ms, so that the load is not what limits. */
export async function overload(options: CaseOptions): Promise<Measurement[]> {
  const { repeats, canary } = options;
  const seconds = options.seconds * LONG_TURNS;
  const request = { x: 1 };
  mkdirSync(join(folderOfAll, "device"), { recursive: true });
  copyFileSync(join(root, "test/models/lab/lab.pt"), join(folderOfAll, "device/weights.pt"));
  const folder = await buildOwnModel("device");
  await using served = await sconce()({ name: "device", folder, requests: [request], inputs: [], samples: [] });
  await using load = new OfferedLoad(served);
  // By the slope: what is on its way at the end is a good part of so short a time.
  const peak = () => served.measure({ connections: CONNECTIONS, seconds: options.seconds, hasSlowBatches: true });
  await peak();
  let limit = 0;
  const turns = await inTurns(
    repeats * loads.length,
    async () => {
      await canary.listen();
      limit = (await peak()).perSecond;
      return limit;
    },
    async (turn) => {
      const { factor, polled } = loads[turn % loads.length] ?? { factor: 1, polled: 0 };
      const polledUrls = await Promise.all(Array.from({ length: polled }, () => create(served, request)));
      const before = await succeeded(served);
      const [done, after] = await Promise.all([
        load.run({ perSecond: factor * limit, seconds, patienceMs: PATIENCE_MS }),
        Bun.sleep(seconds * 1000).then(() => succeeded(served)),
      ]);
      // Else the difference is answers on their way.
      const others = polled === 0 ? 0 : Math.max(0, (after - before) / seconds - done.perSecond);
      await Promise.all(polledUrls.map((url) => fetch(`${url}/cancel`, { method: "POST" })));
      return { factor, polled, others, ...done };
    },
  );
  return loads.map(({ factor, polled }) => {
    const own = turns.filter(({ measured }) => measured.factor === factor && measured.polled === polled);
    const middle = (pick: (done: (typeof own)[number]["measured"]) => number) =>
      median(own.map(({ measured }) => pick(measured)));
    const total = (of: "refused" | "left" | "lost" | "unanswered") =>
      sum(own.map(({ measured }) => measured.failed[of]));
    return {
      subject: `device, ${factor} × the peak, clients leave after ${PATIENCE_MS / 1000} s${polled > 0 ? ", polling clients beside them" : ""}`,
      compared: "answered in time, of the peak",
      goal: atLeast(0.95),
      values: own.map(({ before, measured }) => (measured.perSecond + measured.others) / before),
      behind: [
        `${perSecond(middle((done) => done.perSecond))} to ${perSecond(median(own.map(({ before }) => before)))}`,
        ...(polled > 0 ? [`polled ${perSecond(middle((done) => done.others))}`] : []),
        `p50 ${ms(middle((done) => done.p50Ms))}, p99 ${ms(middle((done) => done.p99Ms))}`,
        ...(total("refused") > 0 ? [`refused p99 ${ms(middle((done) => done.refusedP99Ms))}`] : []),
        `${total("refused")} refused, ${total("left")} left`,
      ].join(", "),
      failed: total("lost") + total("unanswered"),
    };
  });
}

/** @returns the URL of the prediction */
async function create({ url }: Server, request: unknown): Promise<string> {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify([request]) });
  return new URL(response.headers.get("location") ?? "", url).href;
}

async function succeeded({ url }: Server): Promise<number> {
  const text = await (await fetch(new URL("/metrics", url))).text();
  return Number(/^sconce_predictions_total\{status="success"\} (\S+)$/m.exec(text)?.[1] ?? 0);
}
