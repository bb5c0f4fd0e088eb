/**
 * Serves a folder on one port. A child process checks each change. Then the server switches to the new version, as
 * `POST /reload` switches to a new build.
 */
import { resolve } from "node:path";
import { codedError, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { freePort } from "../../../machine/network/listener.ts";
import { Child } from "../../../machine/processes/child.ts";
import { makeRunFolder, type RunFolder } from "../../../machine/processes/run-folder.ts";
import type { ServeConfig } from "../../../server/config.ts";
import type { ServedOptions } from "../../../server/model-table.ts";
import { type Server, startServer } from "../../../server/server.ts";
import { Changes } from "./changes.ts";
import { type DeclaredFacts, declaredFacts } from "./declare-role.ts";
import { declaredModel } from "./folder-source.ts";

/** Maximum seconds for a call of the model's code during loading. A shorter --timeout replaces it. */
const MOST_LOAD_S = 60;

/** The model's folder, and the npm packages that its bundle leaves out. */
export interface DevSource {
  readonly dir: string;
  readonly externals: readonly string[];
}

export class DevServer {
  readonly #source: DevSource;
  readonly #config: ServeConfig;
  readonly #folder: RunFolder;
  readonly #changes: Changes;
  #server: Server | undefined;
  /** The version that the server looks up at its start and at a reload. */
  #found: ServedOptions | undefined;
  #served: DeclaredFacts | undefined;
  #declaring: Child | undefined;
  #reloading: Promise<void> | undefined;
  #hasChanged = false;
  #hasFailed = false;
  #isStopping = false;

  private constructor(source: DevSource, config: ServeConfig, folder: RunFolder) {
    this.#config = { ...config, port: freePort(config) };
    this.#source = source;
    this.#folder = folder;
    this.#changes = new Changes(() => void this.#changed());
    this.#changes.add(source.dir, { recursive: true });
  }

  /** Picks the port, which opens with the first version that works. @throws SconceError `address_in_use` */
  static async open({ dir, externals }: DevSource, config: ServeConfig): Promise<DevServer> {
    await using opened = new AsyncDisposableStack();
    const folder = opened.use(makeRunFolder());
    const server = new DevServer({ dir: resolve(dir), externals }, config, folder);
    opened.move();
    return server;
  }

  /** Loads the folder. Resolves when it is served, or its error was logged. Each later change loads it again. */
  start(): Promise<void> {
    return this.#changed();
  }

  /** Finishes the requests, then stops all processes. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#changes[Symbol.dispose]();
    this.#declaring?.kill();
    await this.#server?.stop();
    this.#folder[Symbol.dispose]();
  }

  /** Loads the folder again. Reloads do not overlap: a change during a reload causes another reload. */
  #changed(): Promise<void> {
    this.#hasChanged = true;
    this.#reloading ??= this.#reloadAll().finally(() => {
      this.#reloading = undefined;
    });
    return this.#reloading;
  }

  async #reloadAll(): Promise<void> {
    while (this.#hasChanged && !this.#isStopping) {
      this.#hasChanged = false;
      try {
        await this.#reload();
      } catch (error) {
        if (this.#isStopping) return;
        const next =
          this.#server === undefined
            ? "a change of a file starts the server"
            : "the last working version is still served";
        this.#hasFailed = true;
        log.error(`${codedError(error).message}; ${next}`);
      }
    }
  }

  async #reload(): Promise<void> {
    const started = performance.now();
    const facts = await this.#declare();
    for (const folder of facts.elsewhere) this.#changes.add(folder, { recursive: false });
    const before = this.#served;
    const hadFailed = this.#hasFailed;
    this.#hasFailed = false;
    if (this.#isStopping) return;
    if (facts.reference === before?.reference) {
      if (hadFailed) log.info("Unchanged: the served version is the folder's version again");
      return;
    }
    const packaged = declaredModel(this.#folder.path, facts.reference);
    const found = { name: packaged.repository, packaged, options: {}, engineKey: facts.engineKey };
    this.#found = found;
    if (this.#server !== undefined) await switchBuild(this.#server);
    else
      this.#server = await startServer({
        models: [found],
        config: this.#config,
        resolveAgain: async () => (this.#found === undefined ? [] : [this.#found]),
        reloadLog: quiet,
      });
    this.#served = facts;
    const took = `${((performance.now() - started) / 1000).toFixed(2)} s`;
    if (before === undefined) log.info(`Watching ${this.#source.dir} (${took})`);
    else {
      const keeps = before.engineKey === facts.engineKey;
      log.info(`Reloaded ${packaged.repository} (${took})${keeps ? "; the weights stayed loaded" : ""}`);
    }
  }

  /** Checks the folder in a child process and reads its declaration. @throws SconceError when the model's code fails */
  #declare(): Promise<DeclaredFacts> {
    const { promise, resolve, reject } = Promise.withResolvers<DeclaredFacts>();
    const timeoutS = Math.min(MOST_LOAD_S, this.#config.timeout);
    const child = new Child({
      role: "declare",
      name: "declare process",
      start: { ...this.#source, folder: this.#folder.path, timeoutS },
      onMessage: (message) => {
        if (message.kind === "ready") resolve(declaredFacts.parse(message.info));
        if (message.kind === "failed")
          reject(new SconceError(message.error.code ?? "model_invalid", message.error.message));
        child.send({ kind: "stop" });
      },
      onEnd: () => reject(new SconceError("model_invalid", "the model's code ended its process")),
    });
    this.#declaring = child;
    return promise;
  }
}

/** Log of the server's reloads: this file logs the results for the author of the model. */
const quiet = { info: (text: string) => log.debug(text), error: (text: string) => log.debug(text) };

/** @throws SconceError if the new version cannot start */
async function switchBuild(server: Server): Promise<void> {
  const result = await server.reload();
  if ("refused" in result) throw new SconceError("model_invalid", result.refused);
  if ("failed" in result) throw new SconceError("model_invalid", result.failed);
}
