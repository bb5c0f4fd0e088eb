/** The other servers ("peers") of the benchmark: how each starts, and the format of its requests and answers. */
import { join } from "node:path";
import { z } from "../../src/author/z.ts";
import { Child } from "../child.ts";
import type { Input, Network } from "../networks.ts";
import { type Api, type Start, sconceApi } from "../target.ts";
import { type Command, compiledFrom, inBun, inPython, pinned, startPeer } from "./running.ts";

interface Peer {
  /** Name and version of the server, for the printed table. */
  readonly title: string;
  readonly serves: readonly ((typeof connected)[number] | "minilm")[];
  /** Goal for sconce's rate divided by the rate of this server, on the network `tiny`; undefined for no goal. */
  readonly goal?: number;
  readonly api: Api;
  readonly start: (network: Network) => Promise<Command>;
}

const ONNX = "onnxruntime-node@1.30.0";
const numbers = z.array(z.number());
const predict: Api = { path: "/predict", body: (input) => input, answer: z.object({ y: numbers }) };
const tiny = ["tiny", "tiny-256", "tiny-fronts", "tiny-256-fronts"] as const;
const connected = [...tiny, "mlp"] as const;

export const peers: Readonly<Record<string, Peer>> = {
  ceiling: {
    title: "the ceiling, C++ on h2o",
    serves: connected,
    api: sconceApi,
    start: () => compiledFrom("ceiling.cc", "libh2o-evloop-dev", ["h2o-evloop", "ssl", "crypto", "z"]),
  },
  mosec: {
    title: `${pinned("mosec", "mosec_server.py")} with msgspec`,
    serves: connected,
    goal: 1,
    api: predict,
    start: () => inPython("mosec_server.py"),
  },
  granian: {
    title: `${pinned("granian", "granian_server.py")} with msgspec and a batcher`,
    serves: connected,
    api: predict,
    start: () => inPython("granian_server.py"),
  },
  onnx: {
    title: `${ONNX.replace("@", " ")} in a server of Bun`,
    serves: connected,
    api: predict,
    async start({ folder }) {
      const file = join(folder, "weights.onnx");
      const script = join(import.meta.dir, "onnx_export.py");
      const { command, env } = await inPython(script, [join(folder, "weights.pt"), file]);
      await Child.run(command, env);
      const server = await inBun(ONNX, "onnx_server.mjs");
      return { ...server, env: { ...server.env, PEER_ONNX: file } };
    },
  },
  triton: {
    title: `Triton with a Python backend, ${pinned("nvidia-pytriton", "triton_server.py")}`,
    serves: ["tiny", "mlp"],
    api: {
      path: "/v2/models/network/infer",
      body(input: Input) {
        const data = numbers.parse(input.x);
        return { inputs: [{ name: "x", shape: [1, data.length], datatype: "FP32", data }] };
      },
      answer: z
        .object({ outputs: z.tuple([z.object({ data: numbers })]) })
        .transform(({ outputs: [{ data }] }) => ({ y: data })),
    },
    start: () => inPython("triton_server.py"),
  },
  infinity: {
    title: pinned("infinity-emb", "infinity_server.py"),
    serves: ["minilm"],
    api: {
      path: "/embeddings",
      body: ({ text }) => ({ input: [text] }),
      answer: z.object({ data: z.tuple([z.object({ embedding: numbers })]) }).transform(({ data: [output] }) => output),
    },
    start: () => inPython("infinity_server.py"),
  },
};

/** Starts another server by name, after installing it if it is missing. */
export function peer(name: string): Start {
  return (network) => {
    const found = peers[name];
    if (found === undefined) throw new Error(`there is no peer ${name}`);
    return startPeer(network, found);
  };
}
