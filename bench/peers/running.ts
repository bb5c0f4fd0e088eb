/** A peer that runs, with its packages in .sconce/bench/peers: installed or compiled once, at exact versions. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { made } from "../../examples/minilm/prepared.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { state } from "../../scripts/setup/step.ts";
import { fetchDebianTools } from "../../test/helpers/debian-tools.ts";
import { Child } from "../child.ts";
import { folderOfAll, type Network, python } from "../networks.ts";
import { type Api, Server } from "../target.ts";

/** What starts a peer, and what its environment needs. */
export interface Command {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export const peersFolder = join(folderOfAll, "peers");
const START_MS = 240_000;
const digestOf = (...parts: readonly string[]) => Bun.hash(parts.join("\0")).toString(16);
const textOf = (name: string) => readFileSync(join(import.meta.dir, name), "utf8");

/** Resolves when it answers, be the answer right or wrong. */
export async function startPeer(
  network: Network,
  { title, api, start }: { title: string; api: Api; start: (port: number) => Promise<Command> },
): Promise<Server> {
  await mkdir(join(peersFolder, "home"), { recursive: true });
  const [port = 0, otherPort = 0] = freePorts(2);
  const { command, env } = await start(port);
  const counts = join(peersFolder, `${network.name}.counts`);
  writeFileSync(counts, new Uint8Array(16));
  const shared = {
    PEER_PORT: String(port),
    PEER_OTHER_PORT: String(otherPort),
    PEER_WEIGHTS: join(network.folder, "weights.pt"),
    PEER_COUNTS: counts,
    OMP_NUM_THREADS: "1",
  };
  const child = new Child(command, { cwd: import.meta.dir, env: { ...shared, ...env } });
  const work = () => {
    const [batches, items] = new BigUint64Array(readFileSync(counts).buffer, 0, 2);
    return { batches: Number(batches) || Number.NaN, items: Number(items) };
  };
  const server = new Server(network, { title, child, url: `http://127.0.0.1:${port}`, api, work, owned: child });
  const end = performance.now() + START_MS;
  for (;;) {
    try {
      await server.askSample();
      return server;
    } catch (error) {
      const isOver = performance.now() > end;
      const failure = server.child.failure(`gave no answer within ${START_MS / 1000} s (${error})`);
      if (server.child.hasEnded || isOver) {
        await server[Symbol.asyncDispose]();
        throw failure;
      }
      await Bun.sleep(200);
    }
  }
}

/** A Python with an environment of its own: the packages of requirements/NAME.txt, and after them the torch that the set-up has. */
export async function inPython(name: string, args: readonly string[]) {
  const { command, env: found } = python();
  const requirements = join("requirements", `${name}.txt`);
  const folder = await made(
    join(peersFolder, `${name}-${digestOf(command, textOf(requirements))}`),
    async (unfinished) => {
      console.error(`  installing ${name} with pip, once`);
      await Child.run([command, "-m", "venv", unfinished]);
      // Without what they depend on: all of it is in the file, and some of it would bring another torch.
      const options = ["--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check"];
      const pip = [join(unfinished, "bin", "python"), "-m", "pip", "install", ...options];
      await Child.run([...pip, "-r", join(import.meta.dir, requirements)]);
    },
  );
  const [version = ""] = readdirSync(join(folder, "lib"));
  const packages = join(folder, "lib", version, "site-packages");
  const path = [packages, found.PYTHONPATH].filter(Boolean).join(":");
  return { command: [join(folder, "bin", "python"), ...args], env: { PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: "1" } };
}

/** This Bun with packages of npm, each `name@version`. */
export async function inBun(packages: readonly string[], args: readonly string[]): Promise<Command> {
  const folder = await made(join(peersFolder, `bun-${digestOf(...packages)}`), async (unfinished) => {
    await Bun.write(join(unfinished, "package.json"), "{}");
    await Child.run([process.execPath, "add", "--cwd", unfinished, "--exact", ...packages]);
  });
  return { command: [process.execPath, ...args], env: { NODE_PATH: join(folder, "node_modules") } };
}

/** A program in C++ on libtorch and on libraries of a package of Debian, which is unpacked into the checkout. */
export async function compiledFrom(source: string, debian: string, libraries: readonly string[]): Promise<Command> {
  const unpacked = join(state, "debian", debian, "usr");
  const libtorch = readLibtorch()?.root ?? "";
  if (!existsSync(unpacked)) {
    const problem = await fetchDebianTools([debian]);
    if (problem !== undefined) throw new Error(`${source} needs Debian's ${debian}: ${problem}`);
  }
  const folders = [
    join(libtorch, "lib"),
    join(unpacked, "lib", `${process.arch === "x64" ? "x86_64" : "aarch64"}-linux-gnu`),
  ];
  const headers = ["include", "include/torch/csrc/api/include"].map((each) => join(libtorch, each));
  const program = await made(join(peersFolder, `${source}-${digestOf(textOf(source), libtorch)}`), async (folder) => {
    console.error(`  compiling ${source}, once`);
    await Child.run([
      ..."c++ -O2 -std=c++20 -DAT_PER_OPERATOR_HEADERS".split(" "),
      ...[join(import.meta.dir, source), "-o", join(folder, "server")],
      ...[...headers, join(unpacked, "include")].flatMap((each) => ["-isystem", each]),
      ...folders.flatMap((each) => [`-L${each}`, `-Wl,-rpath,${each}`]),
      ...["torch_cpu", "c10", ...libraries].map((each) => `-l${each}`),
      // Its libraries find theirs there, too.
      "-Wl,--disable-new-dtags",
      "-pthread",
    ]);
  });
  return { command: [join(program, "server")], env: {} };
}

/** "0.9.8" of requirements/NAME.txt. */
export function pinned(name: string, distribution: string): string {
  const line = textOf(join("requirements", `${name}.txt`))
    .split("\n")
    .find((each) => each.startsWith(`${distribution}==`));
  return line?.slice(distribution.length + 2) ?? "";
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
