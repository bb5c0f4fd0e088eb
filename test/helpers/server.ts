/** Real servers in the test's process, with models in a temporary store. */
import { cp } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { configureLog } from "../../src/base/log.ts";
import { build as buildCommand } from "../../src/cli/commands/build.ts";
import { IndexFile } from "../../src/package/store/index-file.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { fixedLimits, type ServeConfig, serveOptions } from "../../src/server/config.ts";
import { type Server, startServer } from "../../src/server/server.ts";
import type { RunningCli } from "./cli.ts";
import { Client } from "./client.ts";
import { commandHere } from "./command-here.ts";
import { type CommandLine, commandLine } from "./command-line.ts";
import { tempDir } from "./fixture.ts";
import { machineEnv } from "./machine.ts";
import { shared } from "./shared.ts";

const { SCONCE_DEVICE: device } = machineEnv;
const folder = fileURLToPath(new URL("../models", import.meta.url));
const examples = fileURLToPath(new URL("../../examples", import.meta.url));

/** Path of a model folder of `test/models`. */
export function modelFolder(name: string): string {
  return join(folder, name);
}

/** A model store and commands for it, for `await using`: the end of the scope removes the store. */
export interface TestStore extends AsyncDisposable, CommandLine {
  /** Path of the store, the value of SCONCE_HOME. */
  readonly home: string;
  /** Starts a server for a model of the store, on a free loopback port. */
  serve(reference: string, config?: Partial<ServeConfig>): Promise<TestServer>;
  /** Starts `sconce serve` in a process, on a free loopback port unless the arguments name one. */
  start(args?: readonly string[], env?: Readonly<Record<string, string>>): RunningCli;
  /** The store, whose `start` puts these arguments and variables before those of each call. */
  starting(args: readonly string[], env?: Readonly<Record<string, string>>): TestStore;
}

export interface TestServer extends AsyncDisposable {
  readonly url: URL;
  readonly client: Client;
  /** A client for the admin port; undefined for a server without one. */
  readonly admin: Client | undefined;
  stop(): Promise<void>;
}

/**
 * Builds models into the store `to`: names in `test/models`, or paths of model folders. Under `npm test`, a model of this
 * checkout is built once and then copied.
 */
export async function addModels(to: string, models: readonly string[]): Promise<void> {
  const homes = await Promise.all(
    models.map(async (model) => {
      const path = model.includes("/") ? resolve(model) : modelFolder(model);
      const isOurs = [folder, examples].includes(dirname(path));
      const home = isOurs ? await shared(`store-${basename(path)}`, (made) => build(made, path)) : undefined;
      if (home === undefined) await build(to, path);
      return home;
    }),
  );
  for (const home of homes) {
    if (home === undefined) continue;
    const index = IndexFile.read(to);
    await cp(home, to, { recursive: true });
    for (const entry of IndexFile.read(home).entries()) index.set(entry);
    index.write();
  }
}

/** Makes a store with these models, as `addModels` adds them. */
export async function storeWith(...models: readonly string[]): Promise<TestStore> {
  const dir = await tempDir();
  await addModels(dir.path, models);
  const sconce = commandLine({ env: { SCONCE_HOME: dir.path } });
  const store: TestStore = {
    ...sconce,
    home: dir.path,
    serve: async (reference, config = {}) => {
      configureLog({ level: "error", format: "text" });
      const packaged = await new ModelStore(dir.path).resolve(reference);
      const all = { ...defaults(), host: "127.0.0.1", port: 0, device, ...config };
      return testServer(
        await startServer({ models: [{ name: packaged.repository, packaged, options: {} }], config: all }),
      );
    },
    start: (args = [], env = {}) => sconce.startCli(["serve", "--host", "127.0.0.1", "-p", "0", ...args], { env }),
    starting: (first, variables = {}) => ({
      ...store,
      start: (args = [], env = {}) => store.start([...first, ...args], { ...variables, ...env }),
    }),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
  return store;
}

async function build(home: string, path: string): Promise<void> {
  configureLog({ level: "error", format: "text" });
  // `--allow-random`, because outputs of some models contain the batch size.
  await commandHere(buildCommand, ["--allow-random", path], { home });
}

function testServer(server: Server): TestServer {
  return {
    url: server.url,
    client: new Client(server.url),
    admin: server.adminUrl && new Client(server.adminUrl),
    stop: () => server.stop(),
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

function defaults(): ServeConfig {
  const entries = Object.entries(serveOptions).map(([key, { default: value }]) => [key, value]);
  return { ...Object.fromEntries(entries), ...fixedLimits } as ServeConfig;
}
