/**
 * Installs and starts the other servers ("peers"). Their packages are installed or compiled once in .sconce/bench, at
 * exact versions.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { installPackages, made } from "../../examples/minilm/prepared.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { state } from "../../scripts/setup/step.ts";
import { messageOf } from "../../src/base/errors.ts";
import { fetchDebianTools } from "../../test/helpers/debian-tools.ts";
import { freePort } from "../../test/helpers/free-port.ts";
import { Child } from "../child.ts";
import { folderOfAll, type Network, python } from "../networks.ts";
import { type Api, Server } from "../target.ts";

/** Command of a peer, with additional environment variables. */
export interface Command {
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const UV = "uv==0.13.9";
const START_MS = 240_000;
const folderOf = (name: string, ...parts: readonly string[]) =>
  join(folderOfAll, "peers", `${name}-${Bun.hash(parts.join("\0")).toString(16)}`);
const textOf = (name: string) => readFileSync(join(import.meta.dir, name), "utf8");

/** Starts a peer, and waits until it answers a prediction. @throws Error if it ends or takes too long */
export async function startPeer(
  network: Network,
  { title, api, start }: { title: string; api: Api; start: (network: Network) => Promise<Command> },
): Promise<Server> {
  const port = freePort();
  const { command, env } = await start(network);
  const shared = {
    PEER_PORT: String(port),
    PEER_OTHER_PORT: String(freePort()),
    PEER_WEIGHTS: join(network.folder, "weights.pt"),
    PEER_HOME: join(folderOfAll, "peers"),
    OMP_NUM_THREADS: "1",
  };
  const child = new Child(command, { cwd: import.meta.dir, env: { ...shared, ...env } });
  const server = new Server(network, { title, child, url: `http://127.0.0.1:${port}`, api, owned: child });
  const end = performance.now() + START_MS;
  for (;;) {
    const problem = await server.askSample().catch((error: unknown) => messageOf(error));
    if (problem === undefined) return server;
    if (child.hasEnded || performance.now() > end) {
      await server[Symbol.asyncDispose]();
      throw child.failure(`gave no answer within ${START_MS / 1000} s (${problem})`);
    }
    await Bun.sleep(200);
  }
}

/**
 * Command for a Python script in an environment that uv creates once. The script's first lines name its packages and
 * a date; torch comes from the set-up.
 */
export async function inPython(script: string, args: readonly string[] = []): Promise<Command> {
  const { command } = python();
  const uv = await made(folderOf("uv", UV), (folder) => installPackages([UV], command, folder));
  return {
    command: [join(uv, "bin", "uv"), "run", "--quiet", "--no-config", "--python", command, "--script", script, ...args],
    env: {
      UV_CACHE_DIR: join(folderOfAll, "uv"),
      UV_PYTHON_DOWNLOADS: "never",
      PYTHONDONTWRITEBYTECODE: "1",
      PEER_TORCH: dirname(readLibtorch()?.root ?? ""),
    },
  };
}

/** Command for a script in the running Bun, with the npm package `wanted` ("name@version"). */
export async function inBun(wanted: string, script: string): Promise<Command> {
  const folder = await made(folderOf("bun", wanted), async (unfinished) => {
    await Bun.write(join(unfinished, "package.json"), "{}");
    await Child.run([process.execPath, "add", "--cwd", unfinished, "--exact", wanted]);
  });
  return { command: [process.execPath, script], env: { NODE_PATH: join(folder, "node_modules") } };
}

/**
 * Compiles a C++ program with libtorch and the libraries of a Debian package, which is unpacked into the checkout.
 * @returns its command
 */
export async function compiledFrom(source: string, debian: string, libraries: readonly string[]): Promise<Command> {
  const unpacked = join(state, "debian", debian, "usr");
  const torch = readLibtorch()?.root ?? "";
  const problem = existsSync(unpacked) ? undefined : await fetchDebianTools([debian]);
  if (problem !== undefined) throw new Error(`${source} needs Debian's ${debian}: ${problem}`);
  const headers = [`${torch}/include`, `${torch}/include/torch/csrc/api/include`, `${unpacked}/include`];
  const folders = [`${torch}/lib`, `${unpacked}/lib/${process.arch === "x64" ? "x86_64" : "aarch64"}-linux-gnu`];
  const program = await made(folderOf(source, textOf(source), torch), async (folder) => {
    console.error(`  compiling ${source}, once`);
    await Child.run([
      ..."c++ -O2 -std=c++20 -DAT_PER_OPERATOR_HEADERS -pthread".split(" "),
      ...[join(import.meta.dir, source), "-o", join(folder, "server"), ...headers.map((each) => `-I${each}`)],
      // Writes RPATH and not RUNPATH, because the dynamic linker also finds the dependencies of the libraries by RPATH.
      ...["-Wl,--disable-new-dtags", ...folders.flatMap((each) => [`-L${each}`, `-Wl,-rpath,${each}`])],
      ...["torch_cpu", "c10", ...libraries].map((each) => `-l${each}`),
    ]);
  });
  return { command: [join(program, "server")] };
}

/** Name and version of a Python package, e.g. "mosec 0.9.8", from the first lines of a script. */
export function pinned(distribution: string, script: string): string {
  return `${distribution} ${new RegExp(`"${distribution}(?:\\[.*\\])?==([^"]+)"`).exec(textOf(script))?.[1]}`;
}
