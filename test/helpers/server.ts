/** Real servers in this process, for models that are built into a store of their own. */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ServeConfig, serveOptions } from "../../src/config.ts";
import { configureLog } from "../../src/log.ts";
import { type Server, startServer } from "../../src/server.ts";
import { ModelStore } from "../../src/store/store.ts";
import { cli } from "./cli.ts";
import { Client } from "./client.ts";
import { shared } from "./shared.ts";
import { tempDir } from "./temp-dir.ts";

const folder = fileURLToPath(new URL("../models", import.meta.url));

/** A folder of `test/models`. */
export function modelFolder(name: string): string {
  return join(folder, name);
}

/** A model store that is removed when the scope ends. */
export interface TestStore extends AsyncDisposable {
  /** For `SCONCE_HOME`. */
  readonly home: string;
  /** Starts a server for a model of the store, on a free port of loopback. */
  serve(reference: string, config?: Partial<ServeConfig>): Promise<TestServer>;
}

export interface TestServer extends AsyncDisposable {
  readonly url: URL;
  readonly client: Client;
  stop(): Promise<void>;
}

/**
 * A new store with these models of `test/models`, or model folders elsewhere, built into it. In one run of `npm test` the former are
 * built once: each file gets a copy.
 */
export async function storeWith(...models: readonly string[]): Promise<TestStore> {
  const dir = await tempDir();
  const ours = models.filter((model) => !model.includes("/"));
  const built = ours.length === 0 ? undefined : await shared(ours.join("+"), (home) => buildAll(home, ours));
  if (built !== undefined) await cp(built, dir.path, { recursive: true });
  await buildAll(dir.path, built === undefined ? models : models.filter((model) => !ours.includes(model)));
  return {
    home: dir.path,
    serve: async (reference, config = {}) => {
      configureLog({ level: "error", format: "text" });
      const packaged = await new ModelStore(dir.path).resolve(reference);
      const all = { ...defaults(), isolate: false, linger: 0, host: "127.0.0.1", port: 0, ...config };
      return testServer(await startServer({ packaged, config: all }));
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

async function buildAll(home: string, models: readonly string[]): Promise<void> {
  const builds = await Promise.all(
    models.map((model) =>
      // Some tell how large their batch was.
      cli(["build", "--allow-random", model.includes("/") ? model : modelFolder(model)], {
        env: { SCONCE_HOME: home },
      }),
    ),
  );
  for (const { code, stderr } of builds) if (code !== 0) throw new Error(`the build failed: ${stderr}`);
}

function testServer(server: Server): TestServer {
  return {
    url: server.url,
    client: new Client(server.url),
    stop: () => server.stop(),
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

function defaults(): ServeConfig {
  const entries = Object.entries(serveOptions).map(([key, { default: value }]) => [key, value]);
  return Object.fromEntries(entries) as ServeConfig;
}
