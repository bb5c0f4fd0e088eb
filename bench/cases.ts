/** The cases of the benchmark: what is measured beside what, and which goal was set. */
import { imagesByUrl } from "./images.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { memory } from "./memory.ts";
import { minilm } from "./minilm.ts";
import { oneConnection } from "./one-connection.ts";
import { againstPeer } from "./peers/against-peer.ts";
import { rawAgainstPython } from "./raw-against-python.ts";
import { startUp } from "./start-up.ts";
import { againstEcho, againstRaw } from "./under-load.ts";

export type Cases = Readonly<Record<string, (options: CaseOptions) => Promise<Measurement>>>;

/** By name, in the order of the table. */
export const cases: Cases = {
  raw: (options) => rawAgainstPython("mlp", options),
  "mlp-256": (options) => againstRaw("mlp", { ...options, connections: 256, goal: atLeast(0.9) }),
  "mlp-64": (options) => againstRaw("mlp", { ...options, connections: 64 }),
  "mlp-echo": (options) => againstEcho("mlp", { ...options, connections: 256 }),
  "tiny-64": (options) => againstEcho("tiny", { ...options, connections: 64, goal: atLeast(0.5) }),
  "create-get-64": (options) =>
    againstEcho("tiny", { ...options, connections: 64, way: "create-get", goal: atLeast(0.35) }),
  "tiny-1": (options) => oneConnection("tiny", options),
  "mlp-1": (options) => oneConnection("mlp", options),
  "images-1": (options) => imagesByUrl(1, options),
  "images-2": (options) => imagesByUrl(2, options),
  minilm: (options) => minilm(options),
  start: (options) => startUp(options),
  memory: (options) => memory(options),
};

/** Beside other servers, which are installed for it: only those that are asked for. */
export const peerCases: Cases = {
  "mosec-tiny": (options) => againstPeer("mosec", "tiny", { ...options, connections: 64, goal: atLeast(2) }),
  "fastapi-tiny": (options) => againstPeer("fastapi", "tiny", { ...options, connections: 64, goal: atLeast(8) }),
  "litserve-tiny": (options) => againstPeer("litserve", "tiny", { ...options, connections: 64, goal: atLeast(30) }),
  "triton-tiny": (options) => againstPeer("triton", "tiny", { ...options, connections: 64 }),
  "tungstenkit-tiny": (options) =>
    againstPeer("tungstenkit", "tiny", { ...options, connections: 64, goal: atLeast(20) }),
  "mosec-mlp": (options) => againstPeer("mosec", "mlp", { ...options, connections: 256, goal: atLeast(2.3) }),
  "fastapi-mlp": (options) => againstPeer("fastapi", "mlp", { ...options, connections: 256 }),
  "litserve-mlp": (options) => againstPeer("litserve", "mlp", { ...options, connections: 256 }),
  "triton-mlp": (options) => againstPeer("triton", "mlp", { ...options, connections: 256 }),
};
