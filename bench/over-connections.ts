/** Throughput against connections, of this server or of another one, beside the raw loop. */

import type { Load } from "./load.ts";
import type { CaseOptions, Measurement } from "./measurement.ts";
import type { Network } from "./networks.ts";
import { buildNetwork, type NetworkName } from "./networks.ts";
import { perSecond } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { Target, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";

const BATCH = 64;
const THREADS = 1;
const CONNECTIONS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** A server that is loaded here, whichever it is. */
export interface Loaded extends AsyncDisposable {
  readonly title: string;
  load(options: { connections: number; seconds: number }): Promise<Load>;
  /** Waits until nothing of the load is left, and throws when answers are wrong. */
  check(): Promise<void>;
}

/** This server. */
export async function sconce(network: Network): Promise<Loaded> {
  const served = await Target.served(network.name);
  return {
    title: "sconce",
    load: (options) => served.load({ bodies: network.bodies, ...options }),
    check: () => served.check(network),
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  };
}

/** @param start starts the server, which is ended when all is measured */
export async function overConnections(
  name: NetworkName,
  start: (network: Network) => Promise<Loaded>,
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using server = await start(network);
  await using raw = RawLoop.start("addon", network, THREADS);
  const most = CONNECTIONS.at(-1) ?? 1;
  await server.check();
  await server.load({ connections: most, seconds: WARM_UP_S });
  await server.check();
  let turn = 0;
  const turns = await inTurns(
    repeats * CONNECTIONS.length,
    async () => {
      await canary.listen();
      return (await raw.throughput(BATCH, seconds)).perSecond;
    },
    async () => {
      const connections = CONNECTIONS[turn++ % CONNECTIONS.length] ?? 1;
      const done = await server.load({ connections, seconds });
      await server.check();
      return { connections, ...done };
    },
  );
  const limit = median(turns.map(({ before }) => before));
  const shares = turns.map(({ before, measured, after }) => ({
    connections: measured.connections,
    share: (2 * measured.perSecond) / (before + after),
  }));
  const sharesAt = (connections: number) =>
    shares.filter((each) => each.connections === connections).map(({ share }) => share);
  const points = CONNECTIONS.map((x) => ({ x, y: median(sharesAt(x)) * limit }));
  return {
    subject: `${name}, 1 to ${most} connections`,
    compared: `${server.title} at ${most}, of the raw loop`,
    unit: "",
    reached: spread(sharesAt(most)),
    values: sharesAt(most),
    behind: points.map(({ x, y }) => `${x}: ${perSecond(y)}`).join(", "),
    failed: sum(turns.map(({ measured }) => measured.failed)),
    lines: [{ plot: "connections", name: server.title, points, limit }],
    cores: canary.shares(),
  };
}
