/** Starts sconce in its various forms, and the echo server. raw.ts has the raw loop, peers/ has other servers. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { compileExecutable } from "../src/package/executable/executable.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { tempDir } from "../test/helpers/fixture.ts";
import { startRedis } from "../test/helpers/redis.ts";
import { Child } from "./child.ts";
import type { RequestPattern } from "./load.ts";
import { folderOfAll, sconceCommand, storeEnv } from "./networks.ts";
import { type Api, Server, type Start, sconceApi } from "./target.ts";

export interface SconceOptions {
  /** Threads of one forward pass; default 1. */
  readonly threads?: number;
  readonly device?: string;
  readonly flags?: readonly string[];
  readonly requests?: RequestPattern;
  readonly api?: Api;
  /** Stores predictions in an SQLite file. Default: as `flags` say. */
  readonly inFile?: boolean;
  /** Starts one replica for each role, all with one Redis. Requests go to the first. */
  readonly roles?: readonly ("front" | "worker" | "both")[];
  /** Command that serves the model; default: `sconce serve`. */
  readonly command?: (name: string) => Promise<readonly string[]> | readonly string[];
}

const onLoopback = ["--port", "0", "--host", "127.0.0.1"] as const;

/** Starts `sconce serve`, by default with one inference thread on the CPU. */
export function sconce(options: SconceOptions = {}) {
  const {
    threads = 1,
    device = "cpu",
    flags = [],
    requests = "wait",
    api = sconceApi,
    inFile = false,
    roles,
    command = serve,
  } = options;
  return async (network: Parameters<Start>[0]): Promise<Server> => {
    await using owned = new AsyncDisposableStack();
    const engine = ["--threads", String(threads), "--device", device];
    const all = [...(await command(network.name)), ...onLoopback, ...engine, ...flags];
    if (inFile) all.push("--store", owned.use(await tempDir()).join("predictions.sqlite"));
    if (roles !== undefined) all.push("--queue", owned.use(await startRedis()).url);
    const started = (roles ?? [undefined]).map(async (role) => {
      const child = owned.use(new Child(role === undefined ? all : [...all, "--role", role], { env: storeEnv }));
      return { child, url: await listening(child) };
    });
    const [asked] = await Promise.all(started);
    if (asked === undefined) throw new Error("no replica is asked");
    return new Server(network, { title: "sconce", ...asked, api: { ...api, requests }, owned: owned.move() });
  };
}

const serve = (name: string) => [...sconceCommand, "serve", name];

/** Starts sconce as one executable file, with the model and libtorch inside. */
export const executable = sconce({ command: async (name) => [await compiled(name)] });

export async function compiled(name: string): Promise<string> {
  const folder = join(folderOfAll, "executables");
  await mkdir(folder, { recursive: true });
  const model = await new ModelStore(storeEnv.SCONCE_HOME).resolve(name);
  await compileExecutable({ outfile: join(folder, name), model, libtorch: "embedded" });
  return join(folder, name);
}

/** An upper bound for sconce: echo.ts answers the same route, without record and model. */
export const echo: Start = async (network) => {
  const child = new Child([process.execPath, join(import.meta.dir, "echo.ts"), network.folder, network.name]);
  const options = { title: "the echo", child, url: await listening(child), api: sconceApi, owned: child };
  return new Server({ ...network, samples: [] }, options);
};

/** Resolves with the URL that a starting sconce process prints. */
export async function listening(child: Child): Promise<string> {
  const [, url = ""] = await child.line(/Listening on (http\S+)/);
  return url;
}
