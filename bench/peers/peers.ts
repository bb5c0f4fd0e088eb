/** The other servers: how each is started, asked and understood. Their packages are installed into .sconce/bench/peers, at exact versions. */
import { readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { installPackages, made } from "../../examples/minilm/prepared.ts";
import { z } from "../../src/model/z.ts";
import { Child } from "../child.ts";
import { folderOfAll, type Input, type Network, python } from "../networks.ts";
import { type Api, Server, type Start } from "../target.ts";

interface Peer extends Api {
  /** In a table, with its version. */
  readonly title: string;
  /** The networks that it serves, and how many times its rate is to be reached. */
  readonly goals: { readonly tiny?: number | null; readonly mlp?: number | null; readonly minilm?: number | null };
  /** What starts it, and what its environment needs. */
  readonly start: (
    port: number,
    network: Network,
  ) => Promise<{ command: readonly string[]; env?: Record<string, string> }>;
}

const peersFolder = join(folderOfAll, "peers");
const START_MS = 120_000;

const numbers = z.array(z.number());
const plain = z.object({ y: numbers });
const xOf = (inputs: readonly Input[]) => numbers.parse(inputs[0]?.x);
/** What most are asked. */
const inference = { path: "/predict", body: (inputs: readonly Input[]) => ({ x: xOf(inputs) }), answer: plain };

const mosec: Omit<Peer, "title"> = {
  ...inference,
  path: "/inference",
  goals: { tiny: 2, mlp: 2.3 },
  // Its log of clients that left, as all do when a load ends, is no part of what is measured.
  start: (port) =>
    inPython("mosec", [
      ...["mosec_server.py", "--address", "127.0.0.1", "--port", String(port), "--capacity", "2048"],
      ...["--timeout", "60000", "--log-level", "error"],
    ]),
};
const withMsgspec = { PEER_JSON: "msgspec" };

export const peers: Readonly<Record<string, Peer>> = {
  mosec: { ...mosec, title: `mosec ${pinned("mosec", "mosec")}` },
  "mosec-msgspec": {
    ...mosec,
    title: `mosec ${pinned("mosec", "mosec")} with msgspec`,
    goals: { tiny: null, mlp: null },
    start: async (...of) => ({
      ...(await mosec.start(...of)),
      env: { ...(await mosec.start(...of)).env, ...withMsgspec },
    }),
  },
  fastapi: {
    ...inference,
    title: `FastAPI ${pinned("fastapi", "fastapi")} with a batcher`,
    goals: { tiny: 8, mlp: null },
    start: () => inPython("fastapi", ["fastapi_server.py"]),
  },
  litserve: {
    ...inference,
    title: `LitServe ${pinned("litserve", "litserve")}`,
    goals: { tiny: 30, mlp: null },
    start: () => inPython("litserve", ["litserve_server.py"]),
  },
  triton: {
    title: `Triton with a Python backend, pytriton ${pinned("triton", "nvidia-pytriton")}`,
    goals: { tiny: null, mlp: null },
    path: "/v2/models/network/infer",
    body: (inputs) => ({
      inputs: [{ name: "x", shape: [1, xOf(inputs).length], datatype: "FP32", data: xOf(inputs) }],
    }),
    answer: z
      .object({ outputs: z.tuple([z.object({ data: numbers })]) })
      .transform(({ outputs: [{ data }] }) => ({ y: data })),
    async start() {
      const { command, env } = await inPython("triton", ["triton_server.py"]);
      const [interpreter = ""] = command;
      // Its backend, which is no Python, loads the interpreter's library.
      const question = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))";
      const home = join(peersFolder, "home");
      await mkdir(home, { recursive: true });
      return {
        command,
        env: { ...env, PYTRITON_HOME: home, LD_LIBRARY_PATH: await Child.run([interpreter, "-c", question]) },
      };
    },
  },
  tungstenkit: {
    title: `tungstenkit ${pinned("tungstenkit", "tungstenkit")}`,
    goals: { tiny: 20 },
    path: "/predict",
    body(inputs) {
      const [a, b, c, d] = xOf(inputs);
      return [{ a, b, c, d }];
    },
    answer: z.object({ outputs: z.tuple([plain]) }).transform(({ outputs: [output] }) => output),
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
  return async (network) => {
    const { title, start, ...api } = peers[name] ?? raise(name);
    const [port = 0, otherPort = 0] = freePorts(2);
    await mkdir(peersFolder, { recursive: true });
    const { command, env } = await start(port, network);
    const counts = join(peersFolder, `${name}-${network.name}.counts`);
    writeFileSync(counts, new Uint8Array(16));
    const child = new Child(command, {
      cwd: import.meta.dir,
      env: {
        PEER_PORT: String(port),
        PEER_OTHER_PORT: String(otherPort),
        PEER_WEIGHTS: join(network.folder, "weights.pt"),
        PEER_COUNTS: counts,
        OMP_NUM_THREADS: "1",
        ...env,
      },
    });
    const work = () => {
      const [batches, items] = new BigUint64Array(readFileSync(counts).buffer, 0, 2);
      return { batches: Number(batches) || Number.NaN, items: Number(items) };
    };
    const server = new Server(network, { title, child, url: `http://127.0.0.1:${port}`, api, work, owned: child });
    try {
      await answering(server);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  };
}

/** A Python with the packages of requirements/NAME.txt and the torch that the set-up has. */
async function inPython(name: string, args: readonly string[]) {
  const { command, env } = python();
  const requirements = join(import.meta.dir, "requirements", `${name}.txt`);
  const digest = Bun.hash(command + readFileSync(requirements, "utf8")).toString(16);
  const packages = await made(join(peersFolder, `${name}-${digest}`), (folder) => {
    console.error(`  installing ${name} with pip, once`);
    // Without what they depend on: all of it is in the file, and some of it would bring another torch.
    return installPackages(["-r", requirements], command, folder);
  });
  const path = [packages, env.PYTHONPATH].filter(Boolean).join(":");
  return { command: [command, ...args], env: { PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: "1" } };
}

/** "0.9.8" of requirements/NAME.txt. */
function pinned(name: string, distribution: string): string {
  const lines = readFileSync(join(import.meta.dir, "requirements", `${name}.txt`), "utf8").split("\n");
  return lines.find((line) => line.startsWith(`${distribution}==`))?.slice(distribution.length + 2) ?? "";
}

/** Waits until it answers, be the answer right or wrong. */
async function answering(server: Server): Promise<void> {
  const end = performance.now() + START_MS;
  for (;;) {
    try {
      await server.askSample();
      return;
    } catch (error) {
      if (server.child.hasEnded) throw server.child.failure();
      if (performance.now() > end) throw server.child.failure(`gave no answer within ${START_MS / 1000} s (${error})`);
      await Bun.sleep(200);
    }
  }
}

function raise(name: string): never {
  throw new Error(`there is no peer ${name}`);
}

/** Ports that nobody listened on a moment ago; the peers take no 0. */
function freePorts(count: number): number[] {
  const held = Array.from({ length: count }, () =>
    Bun.listen({ port: 0, hostname: "127.0.0.1", socket: { data() {} } }),
  );
  const ports = held.map(({ port }) => port);
  for (const listener of held) listener.stop(true);
  return ports;
}
