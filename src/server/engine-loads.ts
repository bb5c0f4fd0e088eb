/** Loads and unloads the engines of a server: for predictions, for requests, and when the memory does not suffice for all. */

import { type Clock, monotonicClock } from "../base/clock.ts";
import { codedError, messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { EngineEvents, EngineMove, EngineState } from "./engine-link.ts";
import { RETRY_LOAD_S } from "./serve-limits.ts";

/** An engine process that can be started again after a stop. */
export interface Loadable {
  readonly name: string;
  /** Expected bytes of memory. */
  readonly bytes: number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The fronts, as far as loads concern them. */
export interface LoadedFronts {
  engineEvents(model: number): Pick<EngineEvents, "failed">;
  changed(model: number, state: "unloaded" | "loading"): void;
  idleMs(model: number): Promise<number>;
  release(model: number): Promise<boolean>;
  onMove: (model: number, move: EngineMove) => void;
}

export interface EngineLoadsOptions {
  readonly engines: readonly Loadable[];
  readonly fronts: LoadedFronts;
  /** Idle time after which a model is unloaded. */
  readonly keepAliveMs?: number | undefined;
  /** Maximum loaded models. */
  readonly maxLoaded?: number | undefined;
  /** Free memory of the machine or the container, in bytes. */
  readonly freeBytes?: () => number;
  readonly clock?: Clock;
}

interface Entry {
  readonly engine: Loadable;
  state: EngineState | "unloading";
  /** Whether the model has memory, or is about to take it. */
  hasRoom: boolean;
  failedAtMs: number;
  /** Whether a prediction came while the model was being unloaded. */
  isNeeded: boolean;
}

/** Interval of looks at models that work, while a model waits for their memory. */
const LOOK_MS = 50;
/** Longest interval of looks at idle models. */
const MAX_IDLE_LOOK_MS = 1000;
/** Memory of a process with libtorch, without weights. */
const PROCESS_BYTES = 300 * 2 ** 20;

export class EngineLoads {
  readonly #options: EngineLoadsOptions;
  readonly #clock: Clock;
  readonly #entries: readonly Entry[];
  /** Settles after the last unload: only one model at a time makes room for itself. */
  #roomy: Promise<unknown> = Promise.resolve();
  #cancelLook: () => void = () => {};
  #isStopping = false;

  constructor(options: EngineLoadsOptions) {
    const { engines, fronts, clock = monotonicClock } = options;
    this.#options = options;
    this.#clock = clock;
    this.#entries = engines.map((engine) => ({
      engine,
      state: "unloaded",
      hasRoom: false,
      failedAtMs: -Infinity,
      isNeeded: false,
    }));
    fronts.onMove = (model, move) => {
      const moving = move === "unload" ? this.unload(model) : this.load(model, move === "load");
      moving.catch((error: unknown) => log.error(error));
    };
    if (options.keepAliveMs !== undefined) this.#lookLater(options.keepAliveMs);
  }

  /**
   * Starts the engine of a model, unless it runs. A failure is reported to the fronts.
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
    const { fronts } = this.#options;
    fronts.changed(model, "loading");
    try {
      if (!(await this.#makeRoom(entry, isPreload))) {
        entry.state = "unloaded";
        log.warn(`The model ${entry.engine.name} is loaded by its first prediction: the others leave it no memory`);
        fronts.changed(model, "unloaded");
        return;
      }
      await this.#started(entry);
      entry.state = "ready";
    } catch (error) {
      entry.state = "failed";
      entry.hasRoom = false;
      entry.failedAtMs = this.#clock.now();
      fronts.engineEvents(model).failed(messageOf(error));
      throw error;
    }
  }

  /**
   * As `start`, for a front: a failure is logged.
   * @param isUrgent whether an earlier failure delays nothing
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

  /** Stops the engine of a model as soon as it is loaded and no front has a prediction. */
  async unload(model: number): Promise<void> {
    const entry = this.#entries[model];
    while (entry?.state === "loading" || (entry?.state === "ready" && !(await this.#tryUnload(entry))))
      await this.#pause();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelLook();
    await Promise.all(this.#entries.map(({ engine }) => engine.stop()));
  }

  /** A device without memory for the model gets it from idle models. */
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
   * Unloads idle models, the least recently used first, until the model fits. Waits while all other models work.
   * @param isPreload whether this is a load at the start, which unloads no other model
   * @returns false if the model does not fit at the start
   */
  #makeRoom(entry: Entry, isPreload: boolean): Promise<boolean> {
    const making = this.#roomy.then(async () => {
      while (!this.#isStopping && !this.#fits(entry)) {
        if (isPreload) return false;
        if (!(await this.#unloadIdle())) await this.#pause();
      }
      entry.hasRoom = true;
      return true;
    });
    this.#roomy = making;
    return making;
  }

  #fits({ engine }: Entry): boolean {
    const { maxLoaded = Infinity, freeBytes = () => Infinity } = this.#options;
    const loaded = this.#entries.filter(({ hasRoom }) => hasRoom);
    // Without another model there is nothing to unload.
    if (loaded.length === 0) return true;
    const loading = [engine, ...loaded.filter(({ state }) => state === "loading").map((entry) => entry.engine)];
    const bytes = loading.reduce((sum, each) => sum + each.bytes + PROCESS_BYTES, 0);
    return loaded.length < maxLoaded && bytes <= freeBytes();
  }

  /** @returns false if all models work */
  async #unloadIdle(): Promise<boolean> {
    const { fronts } = this.#options;
    const idle: { readonly entry: Entry; readonly idleMs: number }[] = [];
    for (const [model, entry] of this.#entries.entries()) {
      if (entry.state !== "ready") continue;
      const idleMs = await fronts.idleMs(model);
      if (idleMs > 0) idle.push({ entry, idleMs });
    }
    for (const { entry } of idle.sort((a, b) => b.idleMs - a.idleMs)) if (await this.#tryUnload(entry)) return true;
    return false;
  }

  /** @returns false if a front has a prediction */
  async #tryUnload(entry: Entry): Promise<boolean> {
    const { fronts } = this.#options;
    const model = this.#entries.indexOf(entry);
    if (entry.state !== "ready") return entry.state === "unloaded";
    entry.state = "unloading";
    if (!(await fronts.release(model))) {
      entry.state = "ready";
      return false;
    }
    await entry.engine.stop();
    entry.state = "unloaded";
    entry.hasRoom = false;
    log.info(`Unloaded the model ${entry.engine.name}`);
    fronts.changed(model, "unloaded");
    if (entry.isNeeded) {
      entry.isNeeded = false;
      void this.load(model, false);
    }
    return true;
  }

  #lookLater(keepAliveMs: number): void {
    const lookMs = Math.min(MAX_IDLE_LOOK_MS, Math.max(LOOK_MS, keepAliveMs / 4));
    this.#cancelLook = this.#clock.after(lookMs, async () => {
      for (const [model, entry] of this.#entries.entries()) {
        if (entry.state !== "ready" || (await this.#options.fronts.idleMs(model)) < keepAliveMs) continue;
        await this.#tryUnload(entry);
      }
      if (!this.#isStopping) this.#lookLater(keepAliveMs);
    });
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#clock.after(LOOK_MS, resolve));
  }
}
