/** Loads and unloads models by starting and stopping their engine processes. */

import { type Clock, monotonicClock } from "../base/clock.ts";
import { codedError, messageOf, SconceError } from "../base/errors.ts";
import type { ModelState } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { reasonForClients } from "./broken-model.ts";
import type { Build, ModelTable } from "./model-table.ts";
import { RETRY_LOAD_S } from "./serve-limits.ts";

export interface EngineLoadsOptions {
  readonly table: ModelTable;
  readonly fronts: {
    /** Sends the table to the fronts. @returns the numbers of the draining builds that a front still needs */
    publish(): Promise<ReadonlySet<number>>;
    /** Milliseconds since any front had an unfinished prediction of the build; 0 while one has. */
    idleMs(number: number): Promise<number>;
  };
  /** Milliseconds without a prediction after which a model is unloaded; undefined: never. */
  readonly keepAliveMs?: number | undefined;
  readonly maxLoaded?: number | undefined;
  /** Free memory of the machine or the container, in bytes. */
  readonly freeBytes?: () => number;
  readonly clock?: Clock;
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
  /** Resolves when the previous model has memory. The next model waits for that before it searches for memory. */
  #previousRoom: Promise<unknown> = Promise.resolve();
  #cancelLook: () => void = () => {};
  #isStopping = false;

  constructor(options: EngineLoadsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
    if (options.keepAliveMs !== undefined) this.#lookLater(options.keepAliveMs);
  }

  /** Loads models at the start of the server. @throws SconceError the failure of the first one if all fail */
  async preload(builds: readonly Build[]): Promise<void> {
    const loads = await Promise.allSettled(builds.map((build) => this.start(build, true)));
    const failures = loads.flatMap((load, i) =>
      load.status === "rejected" ? [{ error: load.reason, label: builds[i]?.label }] : [],
    );
    const [first] = failures;
    if (first !== undefined && failures.length === builds.length) throw first.error;
    for (const { error, label } of failures) log.error(`The model ${label} could not be loaded: ${messageOf(error)}`);
  }

  /**
   * Starts the engine process of a model, unless it runs. With `isPreload`, a model without free memory stays unloaded.
   * @throws SconceError the failure of the load
   */
  async start(build: Build, isPreload = false): Promise<void> {
    while (build.state === "draining") await build.moving;
    if (build.state === "ready" || this.#isStopping) return;
    // The first caller gets the error of the load.
    if (build.state === "loading") return void (await build.moving.catch(() => {}));
    const loading = this.#load(build, isPreload);
    build.moving = loading;
    await loading;
  }

  /**
   * Like `start`, but logs a failure and does not throw it.
   * @param isUrgent whether to try at once after an earlier failure, instead of some seconds later
   */
  async load(build: Build, isUrgent: boolean): Promise<void> {
    const waitMs = build.failedAtMs + 1000 * RETRY_LOAD_S - this.#clock.now();
    if (build.state === "failed" && !isUrgent && waitMs > 0) {
      this.#clock.after(waitMs, () => void this.load(build, false));
      return;
    }
    try {
      await this.start(build);
    } catch (error) {
      log.error(`The model ${build.label} could not be loaded: ${messageOf(error)}`);
    }
  }

  /** Stops the engine process of a model for a client, once it is loaded and no front has a prediction of it. */
  async unload(build: Build): Promise<void> {
    build.isUnloadAsked = true;
    for (;;) {
      await build.moving.catch(() => {});
      if (build.state !== "ready" || (await this.#tryUnload(build))) break;
      await this.#pause();
    }
    await this.#options.fronts.publish();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelLook();
    await Promise.all(this.#options.table.builds.map(({ engine }) => engine.stop()));
  }

  async #load(build: Build, isPreload: boolean): Promise<void> {
    build.isUnloadAsked = false;
    build.isStarting = isPreload;
    this.#change(build, "loading");
    try {
      if (!(await this.#makeRoom(build, isPreload))) {
        log.warn(`The model ${build.label} is loaded by its first prediction: the others leave it no memory`);
        return this.#change(build, "unloaded");
      }
      await this.#started(build);
      this.#change(build, "ready");
    } catch (error) {
      build.hasRoom = false;
      build.failedAtMs = this.#clock.now();
      build.reason = reasonForClients(error);
      this.#change(build, "failed");
      throw error;
    }
  }

  #change(build: Build, state: ModelState): void {
    build.state = state;
    if (state !== "loading") build.isStarting = false;
    void this.#options.fronts.publish();
  }

  /** Starts an engine process. If the device has too little memory, idle models are unloaded to free some. */
  async #started(build: Build): Promise<void> {
    for (;;) {
      try {
        return await build.engine.start();
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
  #makeRoom(build: Build, isPreload: boolean): Promise<boolean> {
    const making = this.#previousRoom.then(async () => {
      while (!this.#fits(build)) {
        if (isPreload) return false;
        if (!(await this.#unloadIdle())) await this.#pause();
        if (this.#isStopping) throw new SconceError("canceled", "the server is stopping");
      }
      build.hasRoom = true;
      return true;
    });
    this.#previousRoom = making.catch(() => {});
    return making;
  }

  #fits(build: Build): boolean {
    const { table, maxLoaded = Infinity, freeBytes = () => Infinity } = this.#options;
    const loaded = table.builds.filter(({ hasRoom }) => hasRoom);
    // A model always fits if no other one is loaded.
    if (loaded.length === 0) return true;
    const loading = [build, ...loaded.filter(({ state }) => state === "loading")];
    const bytes = loading.reduce((sum, each) => sum + each.packaged.size + PROCESS_BYTES, 0);
    return loaded.length < maxLoaded && bytes <= freeBytes();
  }

  /** Unloads one idle model. @returns false if no model is idle */
  async #unloadIdle(): Promise<boolean> {
    const idle = (await this.#readyBuilds()).filter(({ idleMs }) => idleMs > 0);
    for (const { build } of idle.sort((a, b) => b.idleMs - a.idleMs)) if (await this.#tryUnload(build)) return true;
    return false;
  }

  async #readyBuilds(): Promise<{ readonly build: Build; readonly idleMs: number }[]> {
    const { table, fronts } = this.#options;
    const ready = table.current.filter(({ state }) => state === "ready");
    return Promise.all(ready.map(async (build) => ({ build, idleMs: await fronts.idleMs(build.number) })));
  }

  /** Unloads a loaded model. @returns whether the model is unloaded now; false if a front has a prediction of it */
  async #tryUnload(build: Build): Promise<boolean> {
    if (build.state !== "ready") return build.state === "unloaded";
    const unloading = this.#unload(build);
    build.moving = unloading;
    return unloading;
  }

  async #unload(build: Build): Promise<boolean> {
    const { fronts } = this.#options;
    build.state = "draining";
    if ((await fronts.publish()).has(build.number)) {
      this.#change(build, "ready");
      return false;
    }
    await build.engine.stop();
    build.hasRoom = false;
    log.info(`Unloaded the model ${build.label}`);
    this.#change(build, "unloaded");
    return true;
  }

  #lookLater(keepAliveMs: number): void {
    const lookMs = Math.min(MAX_IDLE_LOOK_MS, Math.max(LOOK_MS, keepAliveMs / 4));
    this.#cancelLook = this.#clock.after(lookMs, async () => {
      for (const { build, idleMs } of await this.#readyBuilds()) {
        if (idleMs >= keepAliveMs) await this.#tryUnload(build);
      }
      if (!this.#isStopping) this.#lookLater(keepAliveMs);
    });
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#clock.after(LOOK_MS, resolve));
  }
}
