/** Loads and unloads models by starting and stopping their engine processes. */

import { type Clock, monotonicClock } from "../base/clock.ts";
import { codedError, messageOf } from "../base/errors.ts";
import type { ModelState } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { reasonForClients } from "./broken-model.ts";
import type { EngineMove } from "./engine-link.ts";
import { RETRY_LOAD_S } from "./serve-limits.ts";

/** An engine process that can be started again after a stop. */
export interface Loadable {
  readonly name: string;
  /** Bytes of memory that the weights are expected to take. */
  readonly bytes: number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Tells the HTTP processes of a model about loads and unloads, and asks whether the model is idle. */
export interface LoadedFronts {
  /** The model is being loaded, or was unloaded. @param isByClient whether a client asked for the unload */
  changed(state: "unloaded" | "loading", isByClient?: boolean): void;
  failed(reason: string): void;
  /** Milliseconds since any HTTP process had an unfinished prediction of the model; 0 while one has. */
  idleMs(): Promise<number>;
  /**
   * Disconnects all HTTP processes from the engine process. @returns false, without effect, if one has an unfinished
   * prediction
   */
  release(): Promise<boolean>;
}

export interface EngineLoadsOptions {
  readonly models: readonly { readonly engine: Loadable; readonly fronts: LoadedFronts }[];
  /** Milliseconds without a prediction after which a model is unloaded; undefined: never. */
  readonly keepAliveMs?: number | undefined;
  readonly maxLoaded?: number | undefined;
  /** Free memory of the machine or the container, in bytes. */
  readonly freeBytes?: () => number;
  readonly clock?: Clock;
}

interface Entry {
  engine: Loadable;
  fronts: LoadedFronts;
  state: ModelState | "unloading";
  /** Whether memory is reserved for the model: it is loaded, or about to be. */
  hasRoom: boolean;
  failedAtMs: number;
  /**
   * Whether a prediction or a client asked for the model while it was being unloaded, so that it must be loaded again.
   */
  isNeeded: boolean;
  /** Whether a client has asked for an unload since the last load. */
  isUnloadAsked: boolean;
}

/** Polling interval in milliseconds while a load or an unload waits until a model is idle. */
const LOOK_MS = 50;
/** Longest interval in milliseconds between checks for idle models. */
const MAX_IDLE_LOOK_MS = 1000;
/** Bytes that a process with libtorch takes without weights. */
const PROCESS_BYTES = 300 * 2 ** 20;

export class EngineLoads {
  readonly #options: EngineLoadsOptions;
  readonly #clock: Clock;
  readonly #entries: readonly Entry[];
  /** Resolves when the previous model has memory. The next model waits for that before it searches for memory. */
  #previousRoom: Promise<unknown> = Promise.resolve();
  #cancelLook: () => void = () => {};
  #isStopping = false;

  constructor(options: EngineLoadsOptions) {
    const { models, clock = monotonicClock } = options;
    this.#options = options;
    this.#clock = clock;
    this.#entries = models.map((model) => ({
      ...model,
      state: "unloaded",
      hasRoom: false,
      failedAtMs: -Infinity,
      isNeeded: false,
      isUnloadAsked: false,
    }));
    if (options.keepAliveMs !== undefined) this.#lookLater(options.keepAliveMs);
  }

  /**
   * Another build, whose engine process runs, has replaced the build of a model.
   * @returns the engine process of the earlier build, which the caller stops
   */
  replace(model: number, engine: Loadable, fronts: LoadedFronts): Loadable | undefined {
    const entry = this.#entries[model];
    if (entry === undefined) return undefined;
    const { engine: earlier } = entry;
    Object.assign(entry, { engine, fronts, state: "ready", hasRoom: true, isNeeded: false, isUnloadAsked: false });
    return earlier;
  }

  /** Loads or unloads a model, as an HTTP process asks. A failure is only logged. */
  move(model: number, move: EngineMove): void {
    const moving = move === "unload" ? this.unload(model) : this.load(model, move === "load");
    moving.catch((error: unknown) => log.error(error));
  }

  /**
   * Starts the engine process of a model, unless it runs. With `isPreload`, a model without free memory stays unloaded.
   * A failure is also reported to the HTTP processes.
   * @throws SconceError the failure of the load
   */
  async start(model: number, isPreload = false): Promise<void> {
    const entry = this.#entries[model];
    if (entry === undefined || entry.state === "ready" || entry.state === "loading" || this.#isStopping) return;
    if (entry.state === "unloading") {
      entry.isNeeded = true;
      return;
    }
    entry.state = "loading";
    entry.isUnloadAsked = false;
    entry.fronts.changed("loading");
    try {
      if (!(await this.#makeRoom(entry, isPreload))) {
        entry.state = "unloaded";
        log.warn(`The model ${entry.engine.name} is loaded by its first prediction: the others leave it no memory`);
        entry.fronts.changed("unloaded");
        return;
      }
      await this.#started(entry);
      entry.state = "ready";
    } catch (error) {
      entry.state = "failed";
      entry.hasRoom = false;
      entry.failedAtMs = this.#clock.now();
      entry.fronts.failed(reasonForClients(error));
      throw error;
    }
  }

  /**
   * Like `start`, but logs a failure and does not throw it.
   * @param isUrgent whether to try at once after an earlier failure, instead of some seconds later
   */
  async load(model: number, isUrgent: boolean, isPreload = false): Promise<void> {
    const entry = this.#entries[model];
    if (entry === undefined) return;
    const waitMs = entry.failedAtMs + 1000 * RETRY_LOAD_S - this.#clock.now();
    if (entry.state === "failed" && !isUrgent && waitMs > 0) {
      this.#clock.after(waitMs, () => void this.load(model, false));
      return;
    }
    try {
      await this.start(model, isPreload);
    } catch (error) {
      log.error(`The model ${entry.engine.name} could not be loaded: ${messageOf(error)}`);
    }
  }

  /** Stops the engine process of a model for a client, once it is loaded and no HTTP process has a prediction of it. */
  async unload(model: number): Promise<void> {
    const entry = this.#entries[model];
    if (entry === undefined) return;
    entry.isUnloadAsked = true;
    if (entry.state === "unloaded") entry.fronts.changed("unloaded", true);
    while (entry.state === "loading" || (entry.state === "ready" && !(await this.#tryUnload(entry))))
      await this.#pause();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelLook();
    await Promise.all(this.#entries.map(({ engine }) => engine.stop()));
  }

  /** Starts an engine process. If the device has too little memory, idle models are unloaded to free some. */
  async #started(entry: Entry): Promise<void> {
    for (;;) {
      try {
        return await entry.engine.start();
      } catch (error) {
        if (codedError(error).code !== "out_of_memory" || !(await this.#unloadIdle())) throw error;
      }
    }
  }

  /**
   * Unloads idle models, the least recently used first, until the model fits. Waits while all other models run
   * predictions.
   * @param isPreload whether the server loads this model at its start; then it unloads no other model
   * @returns false if a preloaded model does not fit
   */
  #makeRoom(entry: Entry, isPreload: boolean): Promise<boolean> {
    const making = this.#previousRoom.then(async () => {
      while (!this.#isStopping && !this.#fits(entry)) {
        if (isPreload) return false;
        if (!(await this.#unloadIdle())) await this.#pause();
      }
      entry.hasRoom = true;
      return true;
    });
    this.#previousRoom = making;
    return making;
  }

  #fits({ engine }: Entry): boolean {
    const { maxLoaded = Infinity, freeBytes = () => Infinity } = this.#options;
    const loaded = this.#entries.filter(({ hasRoom }) => hasRoom);
    // A model always fits if no other one is loaded.
    if (loaded.length === 0) return true;
    const loading = [engine, ...loaded.filter(({ state }) => state === "loading").map((entry) => entry.engine)];
    const bytes = loading.reduce((sum, each) => sum + each.bytes + PROCESS_BYTES, 0);
    return loaded.length < maxLoaded && bytes <= freeBytes();
  }

  /** Unloads one idle model. @returns false if no model is idle */
  async #unloadIdle(): Promise<boolean> {
    const idle: { readonly entry: Entry; readonly idleMs: number }[] = [];
    for (const entry of this.#entries) {
      if (entry.state !== "ready") continue;
      const idleMs = await entry.fronts.idleMs();
      if (idleMs > 0) idle.push({ entry, idleMs });
    }
    for (const { entry } of idle.sort((a, b) => b.idleMs - a.idleMs)) if (await this.#tryUnload(entry)) return true;
    return false;
  }

  /**
   * Unloads a loaded model. @returns whether the model is unloaded now; false if an HTTP process has a prediction of it
   */
  async #tryUnload(entry: Entry): Promise<boolean> {
    if (entry.state !== "ready") return entry.state === "unloaded";
    entry.state = "unloading";
    if (!(await entry.fronts.release())) {
      entry.state = "ready";
      return false;
    }
    await entry.engine.stop();
    entry.state = "unloaded";
    entry.hasRoom = false;
    log.info(`Unloaded the model ${entry.engine.name}`);
    entry.fronts.changed("unloaded", entry.isUnloadAsked);
    if (entry.isNeeded) {
      entry.isNeeded = false;
      void this.load(this.#entries.indexOf(entry), false);
    }
    return true;
  }

  #lookLater(keepAliveMs: number): void {
    const lookMs = Math.min(MAX_IDLE_LOOK_MS, Math.max(LOOK_MS, keepAliveMs / 4));
    this.#cancelLook = this.#clock.after(lookMs, async () => {
      for (const entry of this.#entries) {
        if (entry.state !== "ready" || (await entry.fronts.idleMs()) < keepAliveMs) continue;
        await this.#tryUnload(entry);
      }
      if (!this.#isStopping) this.#lookLater(keepAliveMs);
    });
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#clock.after(LOOK_MS, resolve));
  }
}
