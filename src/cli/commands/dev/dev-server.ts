/**
 * Serves a folder on one port. Each change starts a new HTTP process. The engine process, which runs the model, stays
 * until its weights or settings change.
 */
import { resolve } from "node:path";
import { codedError, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { Child } from "../../../machine/processes/child.ts";
import { makeRunFolder, type RunFolder } from "../../../machine/processes/run-folder.ts";
import { Supervised } from "../../../machine/processes/supervised.ts";
import type { ServeConfig } from "../../../server/config.ts";
import type { EngineEvents } from "../../../server/engine-link.ts";
import { shareFiles } from "../../../server/front-files.ts";
import type { FrontStart } from "../../../server/front-process.ts";
import { FOREVER_MS } from "../../../server/fronts.ts";
import { allDone } from "../../../server/messages.ts";
import { ModelEngine } from "../../../server/model-engine.ts";
import { ModelFronts } from "../../../server/model-fronts.ts";
import { heldAfterMs } from "../../../server/serve-limits.ts";
import { Changes } from "./changes.ts";
import { type DeclaredFacts, declaredFacts } from "./declare-role.ts";
import { DevPort, FrontDoor } from "./dev-port.ts";
import { declaredModel, folderArgv } from "./folder-source.ts";

/** Number of HTTP processes: the new one, and the old one that finishes its requests. */
const COUNT = 2;
/** Maximum seconds for a call of the model's code during loading. A shorter --timeout replaces it. */
const MOST_LOAD_S = 60;

interface Generation {
  /** Index of the HTTP process, alternately 0 and 1, because the previous one may still run. */
  readonly index: number;
  readonly facts: DeclaredFacts;
  readonly front: Supervised;
  readonly door: FrontDoor;
  readonly engine: DevEngine;
}

interface FrontPlace {
  readonly engine: DevEngine;
  readonly index: number;
  readonly unix: string;
}

/** An engine process, which runs the model, and the HTTP processes connected to it. */
class DevEngine {
  readonly key: string;
  readonly fronts = new Set<Supervised>();
  readonly #news = new ModelFronts({ model: 0, fronts: this.fronts });
  readonly #process: ModelEngine;

  constructor(key: string, start: (events: EngineEvents) => ModelEngine) {
    this.key = key;
    this.#process = start(this.#news);
  }

  start(): Promise<void> {
    return this.#process.start();
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }

  connect(front: Supervised): void {
    this.fronts.add(front);
    this.#news.repeat(front);
  }
}

/** The model's folder, and the npm packages that its bundle leaves out. */
export interface DevSource {
  readonly dir: string;
  readonly externals: readonly string[];
}

export class DevServer {
  readonly #port: DevPort;
  readonly #source: DevSource;
  readonly #config: ServeConfig;
  readonly #folder: RunFolder;
  readonly #place: ReturnType<typeof shareFiles>;
  readonly #changes: Changes;
  #generations = 0;
  #current: Generation | undefined;
  /** The previous HTTP process, which may still be finishing requests. */
  #retired: Supervised | undefined;
  #next: Supervised | undefined;
  #leaving: Promise<unknown> = Promise.resolve();
  #declaring: Child | undefined;
  #reloading: Promise<void> | undefined;
  #hasChanged = false;
  #hasFailed = false;
  #isStopping = false;

  private constructor(source: DevSource, config: ServeConfig, folder: RunFolder) {
    this.#port = new DevPort(config);
    this.#source = source;
    this.#config = config;
    this.#folder = folder;
    this.#place = shareFiles({ config, folder, count: COUNT, port: this.#port.port, models: 1 });
    this.#changes = new Changes(() => void this.#changed());
    this.#changes.add(source.dir, { recursive: true });
  }

  /** Opens the port. @throws SconceError `address_in_use`, `processes_unavailable` */
  static async open({ dir, externals }: DevSource, config: ServeConfig): Promise<DevServer> {
    await using opened = new AsyncDisposableStack();
    const folder = opened.use(await makeRunFolder());
    const server = new DevServer({ dir: resolve(dir), externals }, config, folder);
    opened.move();
    return server;
  }

  /** Loads the folder. Resolves when it is served, or its error was logged. Each later change loads it again. */
  start(): Promise<void> {
    return this.#changed();
  }

  /** Finishes the requests of the current version, then stops all processes. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#changes[Symbol.dispose]();
    this.#declaring?.kill();
    await Promise.all([this.#next?.stop(0), this.#current?.front.stop(FOREVER_MS), this.#retired?.stop(0)]);
    await this.#reloading;
    await this.#leaving;
    await this.#port.stop();
    await this.#current?.engine.stop();
    await this.#folder[Symbol.asyncDispose]();
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
          this.#current === undefined
            ? `${this.#port.url.origin} answers 503 until a file changes`
            : "the last working version is still served";
        this.#hasFailed = true;
        log.error(`${codedError(error).message}; ${next}`);
      }
    }
  }

  async #reload(): Promise<void> {
    const begun = performance.now();
    const facts = await this.#declare();
    for (const folder of facts.elsewhere) this.#changes.add(folder, { recursive: false });
    const before = this.#current;
    const hadFailed = this.#hasFailed;
    this.#hasFailed = false;
    if (this.#isStopping) return;
    if (facts.reference === before?.facts.reference) {
      if (hadFailed) log.info("Unchanged: the served version is the folder's version again");
      return;
    }
    const packaged = declaredModel(this.#folder.path, facts.reference);
    const keeps = before?.engine.key === facts.engineKey;
    const engine = keeps ? before.engine : this.#newEngine(facts);
    // The new process gets the index of the process before the previous one, so that process must end first.
    await this.#retired?.stop(0);
    const index = before === undefined ? 0 : (before.index + 1) % COUNT;
    this.#generations++;
    const unix = this.#folder.join(`port-${index}.sock`);
    const front = this.#newFront(facts, { engine, index, unix });
    this.#next = front;
    try {
      await Promise.all([front.start(), keeps ? undefined : engine.start()]);
      this.#next = undefined;
    } catch (error) {
      await front.stop(0);
      engine.fronts.delete(front);
      if (!keeps) await engine.stop();
      throw error;
    }
    this.#current = { index, facts, front, engine, door: new FrontDoor(unix) };
    this.#port.door = this.#current.door;
    const took = `${((performance.now() - begun) / 1000).toFixed(2)} s`;
    if (before === undefined)
      log.info(`Listening on ${this.#port.url.origin}, and watching ${this.#source.dir} (${took})`);
    else log.info(`Reloaded ${packaged.repository} (${took})${keeps ? "; the weights stayed loaded" : ""}`);
    if (before !== undefined) this.#retire(before, engine);
  }

  #retire({ front, door, engine }: Generation, next: DevEngine): void {
    this.#retired = front;
    const leaving = door.quiet().then(async () => {
      await front.stop(FOREVER_MS);
      engine.fronts.delete(front);
      if (engine !== next) await engine.stop();
    });
    this.#leaving = Promise.all([this.#leaving, leaving]);
  }

  /** Checks the folder in a child process and reads its declaration. @throws SconceError when the model's code fails */
  #declare(): Promise<DeclaredFacts> {
    const { promise, resolve, reject } = Promise.withResolvers<DeclaredFacts>();
    const timeoutS = Math.min(MOST_LOAD_S, this.#config.timeout);
    const child = new Child({
      role: "declare",
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

  #newEngine({ engineKey, reference }: DeclaredFacts): DevEngine {
    const packaged = declaredModel(this.#folder.path, reference);
    const options = {
      name: packaged.repository,
      packaged,
      config: this.#config,
      argv: folderArgv(this.#folder.path),
      source: undefined,
      folder: this.#folder,
      socketName: `engine-${this.#generations}`,
    };
    return new DevEngine(engineKey, (events) => new ModelEngine({ ...options, events }));
  }

  #newFront({ reference }: DeclaredFacts, { engine, index, unix }: FrontPlace): Supervised {
    const front: Supervised = new Supervised({
      role: "front",
      start: (): FrontStart => {
        // Runs later, when the constructor of `Supervised` has returned and `front` is set.
        queueMicrotask(() => engine.connect(front));
        const { start, counts } = this.#place;
        const { repository: name, tag } = declaredModel(this.#folder.path, reference);
        const models = counts.map((path) => ({ name, number: 0, tag, reference, config: this.#config, counts: path }));
        return {
          ...start,
          argv: folderArgv(this.#folder.path),
          models,
          index,
          unix,
          listensLate: false,
          server: "",
          hasClaim: true,
        };
      },
      batchTimeoutMs: heldAfterMs(this.#config),
      // A stopping HTTP process waits until all HTTP processes of its version are done. `dev` has only one, so it need
      // not wait.
      onMessage: () => front.send(allDone),
      onEnd: () => this.#place.counters.clear(index),
    });
    return front;
  }
}
