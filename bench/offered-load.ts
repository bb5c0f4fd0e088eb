/** Latency against offered load, in shares of what the raw loop does: how long predictions take when they are not waited for. */
import type { CaseOptions, Measurement } from "./measurement.ts";
import { buildNetwork, type NetworkName } from "./networks.ts";
import { OfferedLoad } from "./offered.ts";
import { ms, perSecond } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { lost, Target, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

const BATCH = 64;
const THREADS = 1;
const SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
/** Of the limit; its latencies are the ones that the table shows. */
const SHOWN = 0.7;
/** What is compared are percentiles of a random load, which takes more requests than a rate does. */
const LONG_TURNS = 2;
const WARM_UP_CONNECTIONS = 64;

export async function offeredLoad(name: NetworkName, options: CaseOptions): Promise<Measurement> {
  const { repeats, canary } = options;
  const seconds = options.seconds * LONG_TURNS;
  const network = await buildNetwork(name);
  const { bodies } = network;
  await using served = await Target.served(name);
  await using raw = RawLoop.start("addon", network, THREADS);
  await using load = new OfferedLoad({ url: `${served.url}/predictions`, bodies });
  await served.check(network);
  await served.load({ bodies, connections: WARM_UP_CONNECTIONS, seconds: WARM_UP_S });
  // The predictions whose connections the warm-up closed are failed by then, and not counted below.
  await served.check(network);
  const before = await served.work();
  let limit = 0;
  let turn = 0;
  const turns = await inTurns(
    repeats * SHARES.length,
    async () => {
      await canary.listen();
      limit = (await raw.throughput(BATCH, options.seconds)).perSecond;
      return limit;
    },
    async () => {
      const share = SHARES[turn++ % SHARES.length] ?? 1;
      const done = await load.run({ perSecond: share * limit, seconds });
      await served.check(network);
      return { share, ...done };
    },
  );
  const after = await served.work();
  const loads = turns.map(({ measured }) => measured);
  const medianLimit = median(turns.map((each) => each.before));
  const failures = {
    "answered with an error": sum(loads.map(({ failed }) => failed.refused)),
    "lost with their connection": sum(loads.map(({ failed }) => failed.lost)),
    "not answered in time": sum(loads.map(({ failed }) => failed.unanswered)),
    "failed in the server": lost(after.failedPredictions - before.failedPredictions, { runs: 0, connections: 0 }),
  };
  const atShare = (share: number) => loads.filter((each) => each.share === share);
  const line = (percentileName: string, pick: (done: (typeof loads)[number]) => number) => ({
    plot: "offered" as const,
    name: percentileName,
    points: SHARES.map((share) => ({ x: share, y: median(atShare(share).map(pick)) })),
    limit: medianLimit,
  });
  const values = atShare(SHOWN).map(({ p50Ms }) => p50Ms);
  return {
    subject: `${name}, offered load`,
    compared: `median at ${SHOWN} of the raw loop`,
    unit: "ms",
    reached: spread(values),
    values,
    behind: [
      `${perSecond(SHOWN * medianLimit)} of ${perSecond(medianLimit)}`,
      ...SHARES.map((share) => {
        const [p50, p99] = [median(atShare(share).map((d) => d.p50Ms)), median(atShare(share).map((d) => d.p99Ms))];
        return `${share}: ${ms(p50)} and ${ms(p99)}`;
      }),
      `sent late p99 ${ms(median(loads.map(({ lateP99Ms }) => lateP99Ms)))}`,
      ...Object.entries(failures).flatMap(([how, count]) => (count > 0 ? [`${count} ${how}`] : [])),
    ].join(", "),
    failed: sum(Object.values(failures)),
    lines: [line("median", ({ p50Ms }) => p50Ms), line("p99", ({ p99Ms }) => p99Ms)],
    cores: canary.shares(),
  };
}
