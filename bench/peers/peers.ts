/** The other servers: how each is started, asked and understood. */
import { z } from "../../src/model/z.ts";
import type { Way } from "../load.ts";

export interface Peer {
  /** In a plot. */
  readonly title: string;
  /** In a table. */
  readonly fullTitle: (version: string) => string;
  /** The package whose version it is. */
  readonly distribution: string;
  /** Which of requirements/ it needs. */
  readonly environment: string;
  /** What the environment's Python is called with. */
  readonly arguments: (port: number) => readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What it is asked with POST. */
  readonly path: string;
  /** How a prediction comes about in its API. */
  readonly way: Way;
  /** The request of one input, to be sent as JSON. */
  readonly body: (x: readonly number[]) => unknown;
  /** An answer, read from JSON, with the output in it. */
  readonly answer: z.ZodType<readonly number[]>;
  /** Its Python is loaded as a library by a program that is none. */
  readonly needsSharedPython?: boolean;
}

const numbers = z.array(z.number());
const plain = z.object({ y: numbers }).transform(({ y }) => y);

/** What follows its script. Its log of clients that left, as all do when a load ends, is no part of what is measured. */
const mosecOptions = (port: number) => [
  ...["--address", "127.0.0.1", "--port", String(port), "--capacity", "2048"],
  ...["--timeout", "60000", "--log-level", "error"],
];

export type PeerName = "mosec" | "mosec-msgspec" | "fastapi" | "litserve" | "triton" | "tungstenkit";

export const peers: Readonly<Record<PeerName, Peer>> = {
  mosec: {
    title: "mosec",
    fullTitle: (version) => `mosec ${version}`,
    distribution: "mosec",
    environment: "mosec",
    arguments: (port) => ["mosec_server.py", ...mosecOptions(port)],
    path: "/inference",
    way: "wait",
    body: (x) => ({ x }),
    answer: plain,
  },
  "mosec-msgspec": {
    title: "mosec, msgspec",
    fullTitle: (version) => `mosec ${version} with msgspec`,
    distribution: "mosec",
    environment: "mosec",
    arguments: (port) => ["mosec_msgspec_server.py", ...mosecOptions(port)],
    path: "/inference",
    way: "wait",
    body: (x) => ({ x }),
    answer: plain,
  },
  fastapi: {
    title: "FastAPI, batcher",
    fullTitle: (version) => `FastAPI ${version} with a batcher`,
    distribution: "fastapi",
    environment: "fastapi",
    arguments: () => ["fastapi_server.py"],
    path: "/predict",
    way: "wait",
    body: (x) => ({ x }),
    answer: plain,
  },
  litserve: {
    title: "LitServe",
    fullTitle: (version) => `LitServe ${version}`,
    distribution: "litserve",
    environment: "litserve",
    arguments: () => ["litserve_server.py"],
    path: "/predict",
    way: "wait",
    body: (x) => ({ x }),
    answer: plain,
  },
  triton: {
    title: "Triton",
    fullTitle: (version) => `Triton, pytriton ${version}`,
    distribution: "nvidia-pytriton",
    environment: "triton",
    arguments: () => ["triton_server.py"],
    path: "/v2/models/network/infer",
    way: "wait",
    body: (x) => ({ inputs: [{ name: "x", shape: [1, x.length], datatype: "FP32", data: x }] }),
    answer: z.object({ outputs: z.tuple([z.object({ data: numbers })]) }).transform(({ outputs: [{ data }] }) => data),
    needsSharedPython: true,
  },
  tungstenkit: {
    title: "tungstenkit",
    fullTitle: (version) => `tungstenkit ${version}`,
    distribution: "tungstenkit",
    environment: "tungstenkit",
    arguments: (port) => [
      ...["-m", "tungstenkit._internal.model_server"],
      ...["--http-port", String(port), "--max-batch-size", "64", "--log-level", "warning"],
    ],
    env: { TUNGSTEN_MODEL_MODULE: "tungstenkit_model", TUNGSTEN_MODEL_CLASS: "Model" },
    path: "/predictions",
    way: "create-poll",
    body: ([a, b, c, d]) => [{ a, b, c, d }],
    answer: z.object({ outputs: z.tuple([plain]) }).transform(({ outputs: [y] }) => y),
  },
};
