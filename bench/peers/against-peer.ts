/** Served predictions a second over those of another server that serves the same weights. */
import type { CaseOptions, Goal, Measurement } from "../measurement.ts";
import { buildNetwork, type NetworkName } from "../networks.ts";
import { ms, perSecond } from "../quantity.ts";
import { lost, Target, WARM_UP_S } from "../target.ts";
import { inTurns, median, spread, sum } from "../turns.ts";
import { type PeerName, peers } from "./peers.ts";
import { RunningPeer } from "./running-peer.ts";

export interface PeerCase extends CaseOptions {
  readonly connections: number;
  readonly goal?: Goal;
}

export async function againstPeer(name: PeerName, network: NetworkName, options: PeerCase): Promise<Measurement> {
  const { connections, seconds, repeats, canary, goal } = options;
  const { way } = peers[name];
  // A peer that is polled is compared with what spares the polling.
  const ourWay = way === "wait" ? "wait" : "create-get";
  const built = await buildNetwork(network);
  await using peer = await RunningPeer.start(name, built);
  await using served = await Target.served(network);
  const loadFor = (duration: number) =>
    served.load({ bodies: built.bodies, connections, seconds: duration, way: ourWay });
  await served.check(built);
  await loadFor(WARM_UP_S);
  await peer.load({ connections, seconds: WARM_UP_S });
  const [before, peerBefore] = [await served.work(), peer.work()];
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      const done = await loadFor(seconds);
      // What a load left behind runs on; this waits in line behind it, so that the next turn has the machine to itself.
      await served.check(built);
      return done;
    },
    async () => {
      const done = await peer.load({ connections, seconds });
      await peer.check();
      return done;
    },
  );
  const [after, peerAfter] = [await served.work(), peer.work()];
  const [first] = turns;
  const ours = [...(first ? [first.before] : []), ...turns.map((turn) => turn.after)];
  const theirs = turns.map(({ measured }) => measured);
  const values = turns.map((turn) => (turn.before.perSecond + turn.after.perSecond) / 2 / turn.measured.perSecond);
  const both = (pick: (load: (typeof theirs)[number]) => number) =>
    [ours, theirs].map((each) => median(each.map(pick)));
  const batches = [
    (after.items - before.items) / (after.batches - before.batches),
    (peerAfter.items - peerBefore.items) / (peerAfter.batches - peerBefore.batches),
  ];
  return {
    subject: `${network}, ${connections} connections${way === "wait" ? "" : ", create then read"}`,
    compared: `of ${peer.fullTitle}`,
    unit: "",
    ...(goal === undefined ? {} : { goal }),
    reached: spread(values),
    values,
    behind: [
      both((load) => load.perSecond)
        .map(perSecond)
        .join(" to "),
      ...(way === "wait"
        ? [
            `p50 ${both((load) => load.p50Ms)
              .map(ms)
              .join(" to ")}`,
            `p99 ${both((load) => load.p99Ms)
              .map(ms)
              .join(" to ")}`,
          ]
        : []),
      `batches of ${batches.map((rows) => rows.toFixed(1)).join(" to ")}`,
    ].join(", "),
    failed:
      sum(ours.map(({ failed }) => failed)) +
      lost(after.failedPredictions - before.failedPredictions, { runs: ours.length, connections }),
    cores: canary.shares(),
  };
}
