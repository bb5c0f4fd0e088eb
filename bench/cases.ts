/** The cases of the benchmark: what is measured beside what, and which goal was set. */
import { cudaDeviceCount } from "../src/native/binding.ts";
import { executableAgainstServe, executableStart } from "./executable.ts";
import { imagesByUrl, imagesReady } from "./images.ts";
import { largeBody, longQueue, manyInputs } from "./large-requests.ts";
import { atLeast, atMost, type CaseOptions, type Measurement } from "./measurement.ts";
import { memory } from "./memory.ts";
import { minilm } from "./minilm.ts";
import { offeredLoad } from "./offered-load.ts";
import { oneConnection } from "./one-connection.ts";
import { overConnections, sconce } from "./over-connections.ts";
import { overload } from "./overload.ts";
import { againstPeer } from "./peers/against-peer.ts";
import { RunningPeer } from "./peers/running-peer.ts";
import { queueWorkers } from "./queue-workers.ts";
import { rawAgainstPython } from "./raw-against-python.ts";
import { resnetCuda } from "./resnet-cuda.ts";
import { servedPictures } from "./served-pictures.ts";
import { startUp } from "./start-up.ts";
import { againstEcho, againstRaw } from "./under-load.ts";
import { fronts, isolation, queueing, storing } from "./variants.ts";

export type Cases = Readonly<Record<string, (options: CaseOptions) => Promise<Measurement | readonly Measurement[]>>>;

/** By name, in the order of the table. */
const own: Cases = {
  raw: (options) => rawAgainstPython("mlp", options),
  "mlp-256": (options) => againstRaw("mlp", { ...options, connections: 256, goal: atLeast(0.97) }),
  "mlp-binary": (options) => againstRaw("mlp", { ...options, connections: 256, form: "bytes" }),
  "mlp-64": (options) => againstRaw("mlp", { ...options, connections: 64, goal: atLeast(0.85) }),
  "mlp-echo": (options) => againstEcho("mlp", { ...options, connections: 256 }),
  "tiny-64": (options) => againstEcho("tiny", { ...options, connections: 64, goal: atLeast(0.7) }),
  "create-get-64": (options) =>
    againstEcho("tiny", { ...options, connections: 64, way: "create-get", goal: atLeast(0.35) }),
  "tiny-1": (options) => oneConnection("tiny", options),
  "mlp-1": (options) => oneConnection("mlp", options),
  "many-inputs": (options) => manyInputs(options),
  "long-queue": (options) => longQueue(options),
  overload: (options) => overload(options),
  "large-body": (options) => largeBody(options),
  "images-1": (options) => imagesByUrl(1, options),
  "images-2": (options) => imagesByUrl(2, options),
  "images-ready": (options) => imagesReady(1, options),
  minilm: (options) => minilm(options),
  ...(cudaDeviceCount() > 0 ? { "resnet-cuda": (options: CaseOptions) => resnetCuda(options) } : {}),
  "isolation-mlp": (options) => isolation("mlp", { ...options, connections: 256, goal: atLeast(0.95) }),
  "isolation-mlp-1": (options) => isolation("mlp", { ...options, connections: 1, goal: atMost(0.2) }),
  "isolation-tiny": (options) => isolation("tiny", { ...options, connections: 64 }),
  "isolation-tiny-1": (options) => isolation("tiny", { ...options, connections: 1, goal: atMost(0.2) }),
  "store-tiny": (options) => storing("tiny", { ...options, connections: 64, goal: atLeast(0.95) }),
  "store-create-get": (options) =>
    storing("tiny", { ...options, connections: 64, way: "create-get", goal: atLeast(0.7) }),
  "store-mlp": (options) => storing("mlp", { ...options, connections: 256, goal: atLeast(0.98) }),
  "queue-tiny": (options) => queueing("tiny", { ...options, connections: 64, goal: atLeast(0.4) }),
  "queue-latency": (options) => queueing("tiny", { ...options, connections: 1, goal: atMost(3) }),
  "queue-workers": (options) => queueWorkers(options),
  "fronts-tiny": (options) => fronts("tiny", { ...options, connections: 64 }),
  "fronts-mlp": (options) => fronts("mlp", { ...options, connections: 256 }),
  pictures: (options) => servedPictures(options),
  "fronts-pictures": (options) => fronts("mean", { ...options, connections: 64 }),
  start: (options) => startUp(options),
  "executable-start": (options) => executableStart(options),
  "executable-tiny": (options) => executableAgainstServe("tiny", { ...options, connections: 64 }),
  "executable-mlp": (options) => executableAgainstServe("mlp", { ...options, connections: 256 }),
  memory: (options) => memory(options),
};

/** Beside other servers. */
const beside: Cases = {
  "mosec-tiny": (options) => againstPeer("mosec", "tiny", { ...options, connections: 64, goal: atLeast(2) }),
  "mosec-msgspec-tiny": (options) => againstPeer("mosec-msgspec", "tiny", { ...options, connections: 64 }),
  "fastapi-tiny": (options) => againstPeer("fastapi", "tiny", { ...options, connections: 64, goal: atLeast(8) }),
  "litserve-tiny": (options) => againstPeer("litserve", "tiny", { ...options, connections: 64, goal: atLeast(30) }),
  "triton-tiny": (options) => againstPeer("triton", "tiny", { ...options, connections: 64 }),
  "tungstenkit-tiny": (options) =>
    againstPeer("tungstenkit", "tiny", { ...options, connections: 64, goal: atLeast(20) }),
  "mosec-mlp": (options) => againstPeer("mosec", "mlp", { ...options, connections: 256, goal: atLeast(2.3) }),
  "mosec-msgspec-mlp": (options) => againstPeer("mosec-msgspec", "mlp", { ...options, connections: 256 }),
  "fastapi-mlp": (options) => againstPeer("fastapi", "mlp", { ...options, connections: 256 }),
  "litserve-mlp": (options) => againstPeer("litserve", "mlp", { ...options, connections: 256 }),
  "triton-mlp": (options) => againstPeer("triton", "mlp", { ...options, connections: 256 }),
};

/** What the plots show beside what is measured for the table. */
const plots: Cases = {
  "mlp-connections": (options) => overConnections("mlp", sconce, options),
  "mlp-offered": (options) => offeredLoad("mlp", options),
};

/** Further lines of the plot over connections. */
const peerPlots: Cases = Object.fromEntries(
  (["mosec", "mosec-msgspec", "fastapi", "litserve", "triton"] as const).map((peer) => [
    `${peer}-connections`,
    (options: CaseOptions) => overConnections("mlp", (network) => RunningPeer.start(peer, network), options),
  ]),
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
