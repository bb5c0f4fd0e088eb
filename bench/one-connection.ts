/** What the server adds for a client alone: its median less the echo's and less that of a forward pass. */
import { atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildNetwork, type NetworkName } from "./networks.ts";
import { ms } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { lost, refuseFailures, Target, type TargetLoad, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

const GOAL_MS = 0.15;
const THREADS = 1;

export async function oneConnection(
  name: NetworkName,
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using served = await Target.served(name);
  await using echo = await Target.echo(network);
  await using raw = RawLoop.start("python", network, THREADS);
  const loadOne = (target: Target, duration: number) =>
    target.load({ bodies: network.bodies, connections: 1, seconds: duration });
  await served.check(network);
  for (const target of [served, echo]) await loadOne(target, WARM_UP_S);
  const workBefore = await served.work();
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      const { medianMs: forwardMs } = await raw.latency(seconds / 2);
      return { forwardMs, echoMs: refuseFailures(await loadOne(echo, seconds)).p50Ms };
    },
    () => loadOne(served, seconds),
  );
  const workAfter = await served.work();
  const besides = turns.map(({ before, after }) => ({
    forwardMs: (before.forwardMs + after.forwardMs) / 2,
    echoMs: (before.echoMs + after.echoMs) / 2,
  }));
  const values = turns.map(({ measured }, i) => {
    const { forwardMs = 0, echoMs = 0 } = besides[i] ?? {};
    return measured.p50Ms - echoMs - forwardMs;
  });
  // What the same forward pass takes between two requests, when the processor has done other things and slept: the loop knows only
  // one that follows another.
  const inPlaceMs =
    (1000 * (workAfter.batchSeconds - workBefore.batchSeconds)) / (workAfter.batches - workBefore.batches);
  const middle = (pick: (turn: { served: TargetLoad; forwardMs: number; echoMs: number }) => number) =>
    median(turns.map((turn, i) => pick({ served: turn.measured, forwardMs: 0, echoMs: 0, ...besides[i] })));
  return {
    subject: `${name}, 1 connection`,
    compared: "median over echo and forward",
    unit: "ms",
    goal: atMost(GOAL_MS),
    reached: spread(values),
    values,
    behind: [
      `p50 ${ms(middle((turn) => turn.served.p50Ms))}`,
      `echo ${ms(middle((turn) => turn.echoMs))}`,
      `forward ${ms(middle((turn) => turn.forwardMs))}`,
      `batches in the server ${ms(inPlaceMs)}`,
      `p99 ${ms(middle((turn) => turn.served.p99Ms))}`,
    ].join(", "),
    failed:
      sum(turns.map(({ measured }) => measured.failed)) +
      lost(workAfter.failedPredictions - workBefore.failedPredictions, { runs: repeats, connections: 1 }),
    cores: canary.shares(),
  };
}
