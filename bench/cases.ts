/** The cases of the benchmark: what is measured beside what, and which goal was set. */
import { imagesByUrl } from "./images.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { memory } from "./memory.ts";
import { minilm } from "./minilm.ts";
import { oneConnection } from "./one-connection.ts";
import { rawAgainstPython } from "./raw-against-python.ts";
import { startUp } from "./start-up.ts";
import { againstEcho, againstRaw } from "./under-load.ts";

/** By name, in the order of the table. */
export const cases: Readonly<Record<string, (options: CaseOptions) => Promise<Measurement>>> = {
  raw: (options) => rawAgainstPython("mlp", options),
  "mlp-256": (options) => againstRaw("mlp", { ...options, connections: 256, goal: atLeast(0.9) }),
  "mlp-64": (options) => againstRaw("mlp", { ...options, connections: 64 }),
  "mlp-echo": (options) => againstEcho("mlp", { ...options, connections: 256 }),
  "tiny-64": (options) => againstEcho("tiny", { ...options, connections: 64, goal: atLeast(0.5) }),
  "tiny-1": (options) => oneConnection("tiny", options),
  "mlp-1": (options) => oneConnection("mlp", options),
  "images-1": (options) => imagesByUrl(1, options),
  "images-2": (options) => imagesByUrl(2, options),
  minilm: (options) => minilm(options),
  start: (options) => startUp(options),
  memory: (options) => memory(options),
};
