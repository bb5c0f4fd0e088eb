/** The cases of the benchmark: what is measured beside what, and which goal was set. */
import { cudaDeviceCount } from "../src/native/binding.ts";
import { largeRequest, memory } from "./asked.ts";
import { type Comparison, compare } from "./comparison.ts";
import { atLeast, atMost, type CaseOptions, type Goal, type Measurement } from "./measurement.ts";
import { connectedNetwork, mlpInBytes } from "./networks.ts";
import { offeredLoad } from "./offered.ts";
import { overload } from "./overload.ts";
import { peer, peers } from "./peers/peers.ts";
import { bunImage, meanOfPictures, resnetByUrl, resnetReady } from "./photographs.ts";
import { fedEngine } from "./resnet-cuda.ts";
import { minilm } from "./sentences.ts";
import { executableStart, startUp } from "./start-up.ts";
import type { Start } from "./target.ts";
import { echo, executable, raw, rawInPython, type SconceOptions, sconce } from "./targets.ts";

type Measure = (options: CaseOptions) => Promise<Measurement | readonly Measurement[]>;
export type Cases = Readonly<Record<string, Measure>>;

/** One row of the table: on what, what is measured, beside what, to which goal. */
type Asked = Omit<Comparison, "measured" | "beside" | "goal">;
function row(asked: Asked, measured: Start, beside: Comparison["beside"], goal?: Goal): Measure {
  return (options) => compare({ ...asked, measured, beside, ...(goal && { goal }) }, options);
}

const [tiny, mlp] = [() => connectedNetwork("tiny"), () => connectedNetwork("mlp")];
/** 4-16-3, where the server is all that takes time. */
const quick = { network: tiny, connections: 64 };
const thenRead = { ...quick, subject: "tiny, 64 connections, create then read" };
/** 784-2048-2048-10, where the forward pass is most of it: the clients fill two batches of 64, and two more wait. */
const busy = { network: mlp, connections: 256 };
const bySlope = { ...busy, slow: 1 };
/** A client alone, and what its median has more. */
const single = { connections: 1, quantity: "median" } as const;
const [quick1, busy1] = [
  { ...quick, ...single },
  { ...busy, ...single },
];
const added = "median over echo and forward";
/** One batch that runs, one that is next, and two whose images are fetched and decoded meanwhile. */
const images = (network: Asked["network"], subject: string) => ({ network, subject, connections: 64, slow: 5 });
const inBatches = (threads: number) => sconce({ threads, flags: ["--batch-size", "16", "--allow-private-urls"] });

const one = sconce({ flags: ["--no-isolate", "--store", "memory"] });
const two = (options: SconceOptions = {}) => sconce({ flags: ["--fronts", "1", "--store", "memory"], ...options });
const inFile = (options: SconceOptions = {}) => sconce({ flags: ["--fronts", "1"], inFile: true, ...options });
const replicas = (...roles: NonNullable<SconceOptions["roles"]>) => sconce({ flags: ["--fronts", "1"], roles });
const read = { way: "create-get" } as const;
const isolated = { compared: "engine process, of --no-isolate" };
const kept = { compared: "predictions in a file, of in memory" };
const queued = { compared: "replica with Redis, of one alone" };
const fronts = { compared: "two fronts, of one" };
const twoFronts = sconce({ flags: ["--fronts", "2", "--store", "memory"] });
const inOneFile = (asked: Asked, subject: string) => ({ ...asked, subject, compared: "of `serve`" });

/** By name, in the order of the table. */
const own: Cases = {
  raw: row({ ...busy, subject: "mlp, raw loop" }, raw(64), rawInPython(64)),
  "mlp-256": row(busy, sconce(), raw(64), atLeast(0.97)),
  "mlp-binary": row(
    { ...busy, network: mlpInBytes, subject: "mlp, inputs as bytes, 256 connections" },
    sconce(),
    raw(64),
  ),
  // While one batch of 32 runs the clients of the other are answered and ask again, and of so few none can be fuller: what never waits has the
  // rate of batches of 32. That is 0.8 of the rate of batches of 64, as a batch takes 3 ms and 0.15 for each row.
  "mlp-64": row({ ...busy, connections: 64 }, sconce(), raw(32), atLeast(0.95)),
  "tiny-64": row(quick, sconce(), echo, atLeast(0.7)),
  "create-get-64": row(thenRead, sconce(read), echo, atLeast(0.35)),
  "tiny-1": row({ ...quick1, compared: added }, sconce(), [echo, rawInPython(1)], atMost(0.15)),
  "mlp-1": row({ ...busy1, compared: added }, sconce(), [echo, rawInPython(1)], atMost(0.15)),
  "many-inputs": inTurn(
    row(ofMany(1, "10,000 inputs in a request"), sconce({ each: 10_000 }), sconce({ each: 100 }), atLeast(1)),
    (options) => largeRequest("tiny", { inputs: 10_000, heldMs: 20 }, options),
  ),
  "long-queue": row(
    ofMany(10, "100,000 inputs in the queue"),
    sconce({ each: 10_000 }),
    sconce({ each: 100 }),
    atLeast(1),
  ),
  overload,
  // 60 MB of numbers.
  "large-body": (options) =>
    largeRequest("mlp", { inputs: 11_600, heldMs: 50, flags: ["--max-inputs", "20000"] }, options),
  "images-1": row(images(resnetByUrl, "images by URL, 1 thread, 64 connections"), inBatches(1), raw(16), atLeast(0.95)),
  "images-2": row(
    images(resnetByUrl, "images by URL, 2 threads, 64 connections"),
    inBatches(2),
    raw(16, 2),
    atLeast(0.95),
  ),
  "images-ready": row(images(resnetReady, "images as ready bytes, 1 thread, 64 connections"), inBatches(1), raw(16)),
  minilm: row({ network: minilm, connections: 64, slow: 10 }, sconce(), raw([64, 32, 16, 8]), atLeast(0.95)),
  ...(cudaDeviceCount() > 0 ? { "resnet-cuda": resnet("cuda", 64) } : {}),
  "isolation-mlp": row({ ...bySlope, ...isolated }, two(), one, atLeast(0.95)),
  "isolation-mlp-1": row({ ...busy1, ...isolated }, two(), one, atMost(0.2)),
  "isolation-tiny": row({ ...quick, ...isolated }, two(), one),
  "isolation-tiny-1": row({ ...quick1, ...isolated }, two(), one, atMost(0.2)),
  "store-tiny": row({ ...quick, ...kept }, inFile(), two(), atLeast(0.95)),
  "store-create-get": row({ ...thenRead, ...kept }, inFile(read), two(read), atLeast(0.7)),
  "store-mlp": row({ ...bySlope, ...kept }, inFile(), two(), atLeast(0.98)),
  "queue-tiny": row({ ...quick, ...queued }, replicas("both"), two(), atLeast(0.4)),
  "queue-latency": row({ ...quick1, ...queued }, replicas("both"), two(), atMost(3)),
  "queue-workers": inTurn(
    row(
      { ...bySlope, compared: "front with two workers, of with one" },
      replicas("front", "worker", "worker"),
      replicas("front", "worker"),
    ),
    row({ ...bySlope, compared: "two replicas in both roles, of one" }, replicas("both", "both"), replicas("both")),
  ),
  "fronts-tiny": row({ ...quick, ...fronts }, twoFronts, two()),
  "fronts-mlp": row({ ...bySlope, ...fronts }, twoFronts, two()),
  pictures: row(
    { network: meanOfPictures, connections: 32, subject: "pictures as data URIs, a model of no cost, 32 connections" },
    two(),
    bunImage,
    atLeast(0.8),
  ),
  "fronts-pictures": row({ network: meanOfPictures, connections: 64, ...fronts }, twoFronts, two()),
  start: startUp,
  "executable-start": executableStart,
  "executable-tiny": row(
    inOneFile(quick, "tiny, 64 connections, one executable file"),
    executable,
    sconce(),
    atLeast(0.97),
  ),
  "executable-mlp": row(
    inOneFile(busy, "mlp, 256 connections, one executable file"),
    executable,
    sconce(),
    atLeast(0.97),
  ),
  memory,
};

/** Beside other servers: the rate, of theirs. */
const onNetworks = { tiny: quick, mlp: busy, minilm: { network: minilm, connections: 64, slow: 10 } };
const beside: Cases = Object.fromEntries(
  Object.entries(peers).flatMap(([name, { goals }]) =>
    Object.entries(onNetworks)
      .filter(([network]) => network in goals)
      .map(([network, asked]) => {
        const goal = new Map<string, number | null>(Object.entries(goals)).get(network);
        return [`${name}-${network}`, row(asked, sconce(), peer(name), goal ? atLeast(goal) : undefined)];
      }),
  ),
);

const overConnections = { network: mlp, connections: [1, 2, 4, 8, 16, 32, 64, 128, 256] };
/** What the plots show beside what is measured for the table. */
const plots: Cases = {
  "mlp-connections": row(overConnections, sconce(), raw(64)),
  "mlp-offered": offeredLoad,
};
/** Further lines of the plot over connections. */
const peerPlots: Cases = Object.fromEntries(
  Object.entries(peers)
    .filter(([, { goals }]) => "mlp" in goals)
    .map(([name]) => [`${name}-connections`, row(overConnections, peer(name), raw(64))]),
);

/** Cases that are asked for together; without a name, those of the first group are measured. */
export const groups = {
  sconce: { cases: own, title: "beside the raw loop and the echo" },
  plots: { cases: plots, title: "for the plots" },
  peers: { cases: beside, title: "beside other servers, which are installed first" },
  "peer-plots": { cases: peerPlots, title: "their lines in a plot" },
} as const;

export const cases: Cases = { ...own, ...plots, ...beside, ...peerPlots };

/** The cases that a name stands for: those of a group, or one; undefined if it stands for none. */
export function casesNamed(name: string): string[] | undefined {
  const group = Object.entries(groups).find(([each]) => each === name)?.[1];
  if (group !== undefined) return Object.keys(group.cases);
  return Object.hasOwn(cases, name) ? [name] : undefined;
}

/** Several measurements that are one case. */
function inTurn(...parts: readonly Measure[]): Measure {
  return async (options) => {
    const all: Measurement[] = [];
    for (const part of parts) all.push(...[await part(options)].flat());
    return all;
  };
}

/** Inputs a second, where requests have many: 10,000 each. */
function ofMany(connections: number, what: string): Asked {
  return { ...quick, connections, slow: 5, subject: `tiny, ${what}`, compared: "inputs a second, of 100 in a request" };
}

function resnet(device: string, rows: number): Measure {
  const subject = `resnet18 on ${device}, batches of ${rows}, ready tensors`;
  return row(
    { network: resnetReady, connections: 1, subject },
    fedEngine(rows, device),
    rawInPython(rows, device),
    atLeast(0.95),
  );
}
