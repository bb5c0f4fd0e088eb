/**
 * The cases of the benchmark. A case has a measured program, a baseline to compare it with, and a goal for the ratio.
 */
import { type CaseOptions, type Comparison, compare } from "./comparison.ts";
import { besideLarge, type Large } from "./large.ts";
import { connectedNetwork, type Input, large, mlpInBytes, photo } from "./networks.ts";
import { peer, peers } from "./peers/peers.ts";
import { bunImage, meanByUrl, meanOfPictures, resnetByData, resnetByTensors, resnetByUrl } from "./photographs.ts";
import { raw, rawInPython } from "./raw.ts";
import { atLeast, atMost, type Goal, type Measurement } from "./report.ts";
import { minilm } from "./sentences.ts";
import { startUp } from "./start-up.ts";
import { writer } from "./steps.ts";
import { openaiApi, type Start } from "./target.ts";
import { echo, executable, type SconceOptions, sconce } from "./targets.ts";
import { inTensors } from "./tensors.ts";

type Measure = (options: CaseOptions) => Promise<Measurement | readonly Measurement[]>;
type Cases = Readonly<Record<string, Measure>>;

type Asked = Omit<Comparison, "measured" | "beside" | "goal">;
function row(asked: Asked, measured: Start, beside: Comparison["beside"], goal?: Goal): Measure {
  return (options) => compare({ ...asked, measured, beside, ...(goal && { goal }) }, options);
}
function largeRow(asked: Large): Measure {
  return (options) => besideLarge(asked, options);
}

const [tiny, mlp] = [() => connectedNetwork("tiny"), () => connectedNetwork("mlp")];
/**
 * Options of the cases with the network `tiny` (4-16-3 units). A forward pass takes microseconds, so these cases
 * measure the server.
 */
const quick = { network: tiny, connections: 64 };
const quick256 = { ...quick, connections: 256 };
const thenRead = { ...quick, subject: "tiny, 64 connections, create then read" };
/**
 * Options of the cases with the network `mlp` (784-2048-2048-10 units), whose forward pass takes most of the time. The
 * requests of 256 clients fill one running batch of 64 and three waiting batches.
 */
const busy = { network: mlp, connections: 256 };
const bySlope = { ...busy, slow: 1 };
const sentences = { network: minilm, connections: 64, slow: 10 };
/**
 * Options of the cases with a single client. The result is sconce's median latency minus the median latencies of the
 * baselines.
 */
const single = { connections: 1, quantity: "median" } as const;
const overForward = { ...single, compared: "median latency minus the echo and the forward pass" };
/**
 * Options of the cases with images by URL. The requests of 64 clients fill four batches of 16: one runs, one waits, and
 * the images of two are fetched and decoded.
 */
const images = (threads: number) => ({
  network: resnetByUrl,
  subject: `images by URL, ${threads} thread${threads === 1 ? "" : "s"}, 64 connections`,
  connections: 64,
  slow: 5,
});
const inBatches = (threads: number) => sconce({ threads, flags: ["--batch-size", "16", "--allow-private-urls"] });
const pictures = { network: meanOfPictures, connections: 32 };
const manyPictures = {
  network: resnetByUrl,
  subject: "ResNet-18, beside 300 pictures in one request",
  inputs: (requests: readonly Input[]) => Array.from({ length: 300 }, (_, i) => requests[i % requests.length] ?? {}),
  flags: ["--allow-private-urls"],
};

const inFronts = (count: number, { flags = [], ...options }: SconceOptions = {}) =>
  sconce({ flags: ["--fronts", String(count), "--store", "memory", ...flags], ...options });
const two = (options: SconceOptions = {}) => inFronts(1, options);
const twoFronts = inFronts(2);
const inFile = (options: SconceOptions = {}) => sconce({ flags: ["--fronts", "1"], inFile: true, ...options });
const replicas = (...roles: NonNullable<SconceOptions["roles"]>) => sconce({ flags: ["--fronts", "1"], roles });
const read = { requests: "create-get" } as const;
const kept = { compared: "predictions in a file, of in memory" };
const queued = { compared: "replica with Redis, of one alone" };
const fronts = { compared: "two fronts, of one" };
const inOneFile = { compared: "one executable file, of `serve`" };

/** Cases by name, in the order of the printed table. */
const own: Cases = {
  raw: row({ ...busy, subject: "mlp, raw loop" }, raw(64), rawInPython(64)),
  "raw-packed": row({ ...busy, subject: "mlp, raw loop, layers packed" }, raw(64, { isPacked: true }), raw(64)),
  "raw-images": row(
    { network: resnetByUrl, connections: 64, slow: 5, subject: "ResNet-18, raw loop, layers packed, 1 thread" },
    raw(16, { isPacked: true }),
    raw(16),
  ),
  "mlp-256": row(busy, sconce(), raw(64), atLeast(0.95)),
  "mlp-binary": row(
    { ...busy, network: mlpInBytes, subject: "mlp, inputs as bytes, 256 connections" },
    sconce(),
    raw(64),
    atLeast(0.98),
  ),
  // 64 clients form two batches of 32: while one batch runs, the clients of the other read answers and send requests.
  // A batch takes 3 ms plus 0.15 ms per row, so batches of 32 reach 0.8 of the rate of batches of 64.
  "mlp-64": row({ ...busy, connections: 64 }, sconce(), raw(64), atLeast(0.8)),
  "mlp-1": row({ ...busy, ...overForward }, sconce(), [echo, rawInPython(1)], atMost(0.3)),
  "tiny-64": row(quick, two(), echo, atLeast(0.85)),
  "tiny-256": row(quick256, two(), echo, atLeast(0.85)),
  "create-get-64": row(thenRead, sconce(read), echo, atLeast(0.35)),
  "tiny-1": row({ ...quick, ...overForward }, sconce(), [echo, rawInPython(1)], atMost(0.15)),
  minilm: row(sentences, sconce(), raw([64, 32, 16, 8]), atLeast(0.95)),
  "minilm-openai": row(
    { ...sentences, compared: "POST /v1/embeddings, of POST /predictions" },
    sconce({ api: openaiApi }),
    sconce(),
    atLeast(0.95),
  ),
  "images-1": row(images(1), inBatches(1), raw(16), atLeast(0.95)),
  "images-2": row(images(2), inBatches(2), raw(16, { threads: 2 }), atLeast(0.97)),
  pictures: row(
    { ...pictures, subject: "pictures as data URIs, a model of no cost, 32 connections" },
    two(),
    bunImage,
    atLeast(0.8),
  ),
  "pictures-url": row(
    { ...pictures, network: meanByUrl, subject: "pictures by URL, a model of no cost, 32 connections" },
    two({ flags: ["--allow-private-urls"] }),
    bunImage,
  ),
  "large-body": largeRow({
    network: mlp,
    subject: "mlp, beside a body of 60 MB of numbers",
    inputs: (requests) => Array.from({ length: 11_600 }, (_, i) => requests[i % requests.length] ?? {}),
    mostMs: 20,
  }),
  "large-images": largeRow({ ...manyPictures, mostMs: 400 }),
  "large-images-target": largeRow({
    ...manyPictures,
    subject: `${manyPictures.subject}, with --latency-target 200`,
    flags: [...manyPictures.flags, "--latency-target", "200"],
    mostMs: 450,
  }),
  "large-output": largeRow({
    network: large,
    subject: "large, beside outputs of 10 MB of numbers",
    inputs: ([input]) => [{ ...input, count: 500_000 }],
    mostMs: 20,
  }),
  "large-picture": largeRow({
    network: photo,
    subject: "photo, beside outputs of 10 MB, a picture each",
    inputs: ([input]) => [{ ...input, side: 1580 }],
    mostMs: 20,
  }),
  "store-tiny": row({ ...quick, ...kept }, inFile(), two(), atLeast(0.95)),
  "store-create-get": row({ ...thenRead, ...kept }, inFile(read), two(read), atLeast(0.7)),
  "store-mlp": row({ ...bySlope, ...kept }, inFile(), two(), atLeast(0.98)),
  "queue-tiny": row({ ...quick, ...queued }, replicas("both"), two(), atLeast(0.4)),
  "queue-latency": row({ ...quick, ...single, ...queued }, replicas("both"), two(), atMost(3)),
  "queue-workers": row(
    { ...bySlope, compared: "front with two workers, of with one" },
    replicas("front", "worker", "worker"),
    replicas("front", "worker"),
  ),
  "queue-both": row(
    { ...bySlope, compared: "two replicas in both roles, of one" },
    replicas("both", "both"),
    replicas("both"),
  ),
  "fronts-tiny": row({ ...quick, ...fronts }, twoFronts, two()),
  "fronts-mlp": row({ ...bySlope, ...fronts }, twoFronts, two()),
  "fronts-pictures": row({ ...pictures, connections: 64, ...fronts }, twoFronts, two()),
  writer,
  start: startUp,
  "executable-tiny": row({ ...quick, ...inOneFile }, executable, sconce(), atLeast(0.97)),
  "executable-mlp": row({ ...busy, ...inOneFile }, executable, sconce(), atLeast(0.97)),
};

/**
 * Device of the group `gpu`: the first GPU. 256 clients fill four batches of 64 pictures, which keep it busy. Networks
 * with pictures measure whether CPUs prepare inputs fast enough; networks with ready tensors measure copies to the GPU.
 */
const device = "cuda";
const onGpu = (...flags: string[]) => sconce({ device, flags: ["--batch-size", "64", ...flags] });
// The expected outputs come from a CPU. GPUs run convolutions in TF32, which has a mantissa of 10 bits, so the
// tolerance is wider.
const inTf32 = (network: typeof resnetByUrl) => async () => ({ ...(await network()), tolerance: 1e-2 });
const photographs = { network: inTf32(resnetByData), connections: 256, slow: 2 };
const gpu: Cases = {
  "gpu-raw": row({ ...photographs, subject: "ResNet-18, raw loop" }, raw(64, { device }), rawInPython(64, device)),
  "gpu-pictures": row(
    { ...photographs, subject: "ResNet-18, pictures as data URIs, 256 connections" },
    onGpu(),
    raw(64, { device }),
    atLeast(0.95),
  ),
  "gpu-url": row(
    { ...photographs, network: inTf32(resnetByUrl), subject: "ResNet-18, pictures by URL, 256 connections" },
    onGpu("--allow-private-urls"),
    raw(64, { device }),
  ),
  "gpu-tensors": row(
    {
      ...photographs,
      network: inTf32(resnetByTensors),
      connections: 64,
      subject: "ResNet-18, eight rows a request of the API v2 as binary tensors, 64 connections",
    },
    inTensors({ rows: 8, input: "image", shape: [3, 224, 224], dtype: "UINT8" }, onGpu()),
    raw(64, { device }),
    atLeast(0.95),
  ),
  "gpu-mlp": row({ ...busy, subject: "mlp, 256 connections" }, onGpu(), raw(64, { device })),
  "gpu-mlp-binary": row(
    { ...busy, network: mlpInBytes, subject: "mlp, inputs as bytes, 256 connections" },
    onGpu(),
    raw(64, { device }),
  ),
  "gpu-mlp-1": row({ ...busy, ...overForward }, onGpu(), [echo, rawInPython(1, device)], atMost(0.3)),
};

/** Says in the row of the table that sconce runs two HTTP processes ("fronts"), which is faster on some machines. */
const inTwo = (asked: Asked) => ({ ...asked, subject: `tiny, ${asked.connections} connections, two fronts` });
const onNetworks = {
  tiny: [two(), quick],
  "tiny-256": [two(), quick256],
  "tiny-fronts": [twoFronts, inTwo(quick)],
  "tiny-256-fronts": [twoFronts, inTwo(quick256)],
  mlp: [sconce(), busy],
  minilm: [sconce(), sentences],
} as const;
const beside: Cases = Object.fromEntries(
  Object.entries(peers).flatMap(([name, { serves, goal }]) =>
    serves.map((network) => {
      const [measured, asked] = onNetworks[network];
      const isGoal = goal !== undefined && asked.network === tiny;
      return [`${name}-${network}`, row(asked, measured, peer(name), isGoal ? atLeast(goal) : undefined)];
    }),
  ),
);

/** The ratios to the echo that ratchet.json keeps. Default options, as users run sconce. */
const ratchet: Cases = Object.fromEntries(
  ([tiny, mlp] as const).flatMap((network) =>
    [64, 256].map((connections) => {
      const name = `${network === tiny ? "tiny" : "mlp"}-${connections}`;
      return [`ratchet-${name}`, row({ network, connections }, sconce(), echo)];
    }),
  ),
);

/** Groups of cases by name. The benchmark runs the group `sconce` if the command line names none. */
export const groups = {
  sconce: { cases: own, title: "beside the raw loop and the echo" },
  ratchet: { cases: ratchet, title: "beside the echo, compared with the ratios that ratchet.json keeps" },
  gpu: { cases: gpu, title: "on a GPU, beside the raw loop" },
  peers: { cases: beside, title: "beside other servers, which are installed first" },
} as const;

export const cases: Cases = { ...own, ...ratchet, ...gpu, ...beside };

/** Names of all cases of the group `name`; if `name` is a case, only that name. @throws Error for an unknown name */
export function casesNamed(name: string): string[] {
  const group = Object.entries(groups).find(([each]) => each === name)?.[1];
  if (group !== undefined) return Object.keys(group.cases);
  if (Object.hasOwn(cases, name)) return [name];
  throw new Error(`unknown case ${name}; known: ${[...Object.keys(groups), ...Object.keys(cases)].join(", ")}`);
}
