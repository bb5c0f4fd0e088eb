/** What one more replica brings where both share this machine: the same load on a queue with one, and on a queue with two. */
import { startRedis } from "../test/helpers/redis.ts";
import type { CaseOptions, Measurement } from "./measurement.ts";
import { buildNetwork } from "./networks.ts";
import { perSecond } from "./quantity.ts";
import { Target, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

const CONNECTIONS = 256;

/** Roles of replicas, the first of which is asked. */
const compared = [
  { what: "front with two workers, of with one", more: ["front", "worker", "worker"], less: ["front", "worker"] },
  { what: "two replicas in both roles, of one", more: ["both", "both"], less: ["both"] },
] as const;

export async function queueWorkers(options: CaseOptions): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  for (const { what, more, less } of compared) measurements.push(await against(what, more, less, options));
  return measurements;
}

async function against(
  what: string,
  more: readonly string[],
  less: readonly string[],
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement> {
  const { bodies } = await buildNetwork("mlp");
  await using opened = new AsyncDisposableStack();
  const served = async (roles: readonly string[]) => {
    const redis = opened.use(await startRedis());
    const targets = roles.map((role) => Target.served("mlp", ["--threads", "1", "--queue", redis.url, "--role", role]));
    const [asked] = (await Promise.all(targets)).map((target) => opened.use(target));
    if (asked === undefined) throw new Error("no replica is asked");
    return (duration: number) =>
      asked.load({ bodies, connections: CONNECTIONS, seconds: duration, hasSlowBatches: true });
  };
  const [ofMore, ofLess] = [await served(more), await served(less)];
  for (const load of [ofMore, ofLess]) await load(WARM_UP_S);
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return ofLess(seconds);
    },
    () => ofMore(seconds),
  );
  const values = turns.map(
    ({ before, measured, after }) => measured.perSecond / ((before.perSecond + after.perSecond) / 2),
  );
  const [rates, besides] = [turns.map(({ measured }) => measured), turns.map(({ before }) => before)].map((loads) =>
    perSecond(median(loads.map((load) => load.perSecond))),
  );
  return {
    subject: `mlp, ${CONNECTIONS} connections`,
    compared: what,
    unit: "",
    reached: spread(values),
    values,
    behind: `${rates} to ${besides}`,
    failed: sum(turns.map(({ measured }) => measured.failed)),
    cores: canary.shares(),
  };
}
