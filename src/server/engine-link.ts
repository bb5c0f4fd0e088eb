/**
 * The connection of an HTTP process to the engine process, through restarts of the engine process.
 */
import type { OpenedModel } from "../author/define.ts";
import { messageOf, SconceError } from "../base/errors.ts";
import type { ModelState, RestartCause } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { Fetcher } from "../pipeline/fetcher.ts";
import type { Hooks } from "../pipeline/hooks.ts";
import type { ListItem } from "../pipeline/item-list.ts";
import { ItemPipeline } from "../pipeline/item-pipeline.ts";
import { type RunningModel, runSetup } from "../pipeline/set-up.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { RETRY_LOAD_S } from "./serve-limits.ts";

export interface EngineEvents {
  /** The engine process listens on this Unix socket. */
  ready(socket: string): void;
  /**
   * The engine process ended.
   * @param reason completes "the engine process …"
   * @param cause undefined for a process that the server has stopped
   */
  ended(reason: string, cause?: RestartCause): void;
  /** The engine process has stopped answering (true), or answers again (false). */
  silent(isSilent: boolean): void;
}

/**
 * A request of an HTTP process to its parent process: to load a model for a prediction (`need`) or for a client, or to
 * unload it.
 */
export type EngineMove = "need" | "load" | "unload";

export interface EngineLinkOptions {
  /** Whether the server loads the model at its start (default true). */
  readonly isPreloaded?: boolean | undefined;
  /** Whether an earlier HTTP process with this index was ready (default false). */
  readonly wasReady?: boolean | undefined;
  /** Sends a request for a load or unload to the parent process. */
  readonly ask?: (move: EngineMove) => void;
}

/** Parts that the engine needs when it is opened. */
export interface FrontTools {
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly fetcher: Fetcher;
  readonly metrics: Metrics;
  readonly hooks: Hooks;
}

/** Longest wait, in milliseconds, of a client's request to load or unload a model. */
const MOVE_MS = 600_000;

export class EngineLink implements EngineEvents {
  state: ModelState;
  /** Whether the model is unloaded because a client asked for it, and not because it was idle. */
  isUnloadedByClient = false;
  /** The reason of the last failed load; undefined before a failure. */
  reason: string | undefined;
  onFailed: (reason: string) => void = () => {};
  /** Milliseconds since this process last had an unfinished prediction of the model; 0 while it has one. */
  predictionsIdleMs: () => number = () => 0;
  readonly #ask: (move: EngineMove) => void;
  #socket: string | undefined;
  #engine: RemoteEngine<ListItem> | undefined;
  #device: ((device: string) => void) | undefined;
  #isAsked = false;
  #readySinceMs = performance.now();
  readonly #settled = Promise.withResolvers<void>();
  readonly #waiting = new Set<() => void>();

  /** Starts without a connection. */
  constructor({ isPreloaded = true, wasReady = false, ask = () => {} }: EngineLinkOptions = {}) {
    this.state = !isPreloaded ? "unloaded" : wasReady ? "ready" : "loading";
    this.#ask = ask;
    // A process that starts again waits for no engine: one that does not start would keep all models from answering.
    if (!isPreloaded || wasReady) this.#settled.resolve();
  }

  ready(socket: string): void {
    this.#socket = socket;
    void this.#connect();
  }

  ended(reason: string): void {
    this.#socket = undefined;
    this.silent(false);
    this.#engine?.engineEnded(`the engine process ${reason}`);
  }

  /** Sets the state to failed: the engine process could not be started. */
  failed(reason: string): void {
    this.reason = reason;
    this.changed("failed");
    this.onFailed(reason);
    this.#settled.resolve();
  }

  changed(state: ModelState, isByClient = false): void {
    this.state = state;
    this.isUnloadedByClient = state === "unloaded" && isByClient;
    this.#isAsked = false;
    for (const wake of [...this.#waiting]) wake();
    if (state === "unloaded") this.#settled.resolve();
    // Loads the model again if inputs arrived while it was being unloaded.
    if (state === "unloaded" && this.#engine?.isNeeded) this.need();
  }

  silent(isSilent: boolean): void {
    if (this.#engine !== undefined) this.#engine.isSilent = isSilent;
  }

  /** Asks the parent process to load the model, unless it is loaded or already asked for. */
  need(): void {
    if (this.#isAsked || this.state === "ready" || this.state === "loading") return;
    this.#isAsked = true;
    this.#ask("need");
  }

  /** Loads the model, and waits. @throws SconceError `not_ready` with the reason of a failed load */
  async load(): Promise<void> {
    if (this.state !== "ready") {
      // Leaves the state `failed` of an earlier load, in which the wait for this load would end at once.
      this.changed("loading");
      this.#ask("load");
    }
    await this.#until((state) => state === "ready" || state === "failed");
    if (this.state === "failed") throw this.refusal ?? new SconceError("not_ready", "the model could not be loaded");
  }

  /** Asks the parent process to unload the model once no prediction runs. Resolves when the model is unloaded. */
  async unload(): Promise<void> {
    if (this.isUnloadedByClient) return;
    this.#ask("unload");
    await this.#until((state) => this.isUnloadedByClient || state === "failed");
  }

  /** The error for new predictions while the last load has failed; otherwise undefined. */
  get refusal(): SconceError | undefined {
    if (this.state !== "failed") return undefined;
    const message = `the model could not be loaded: ${this.reason}`;
    return new SconceError("not_ready", message, { refusal: "engine", retryAfterS: RETRY_LOAD_S });
  }

  /** Milliseconds without a prediction since the engine process was ready; 0 while a prediction runs. */
  get idleMs(): number {
    return Math.min(this.predictionsIdleMs(), performance.now() - this.#readySinceMs);
  }

  /**
   * Disconnects from the engine process, which may then end. @returns false, without effect, while a prediction runs
   */
  release(): boolean {
    return this.predictionsIdleMs() > 0 && (this.#engine?.release() ?? true);
  }

  /**
   * Runs the model's `setup` and connects to the engine process. Waits for the engine process, unless the model is
   * loaded later.
   * @throws SconceError `model_invalid` if `setup` fails
   */
  async open({ packaged, model, fetcher, metrics, hooks }: FrontTools): Promise<RunningModel> {
    const engine = new RemoteEngine<ListItem>({ ...model.tensors, observer: metrics, onNeeded: () => this.need() });
    this.#engine = engine;
    this.#device = (device) => {
      model.context.device = device;
    };
    await Promise.all([runSetup(model, (name) => packaged.layer(name).path), this.#connect(), this.#settled.promise]);
    return {
      engine,
      pipeline: new ItemPipeline(model, fetcher, hooks),
      get facts() {
        return engine.info;
      },
    };
  }

  async #connect(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || this.#engine === undefined) return;
    try {
      const info = await this.#engine.connect(socket);
      this.#device?.(info.devices.join(","));
      if (this.state !== "ready") this.#readySinceMs = performance.now();
      this.changed("ready");
      this.#settled.resolve();
    } catch (error) {
      // The engine process has ended. The parent process reports that, and starts another one.
      log.debug(`The engine process cannot be reached: ${messageOf(error)}`);
    }
  }

  /** Waits until the state fulfils a condition. @throws SconceError `not_ready` after ten minutes */
  async #until(isReached: (state: ModelState) => boolean): Promise<void> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new SconceError("not_ready", "the model is still at work")), MOVE_MS);
    try {
      while (!isReached(this.state)) {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#waiting.add(resolve);
        await Promise.race([promise, late.promise]).finally(() => this.#waiting.delete(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Logs a lower batch limit. The failed batches run again in smaller parts, so a warning is enough. */
export function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: the limit is ${maxBatchSize} inputs for now; --batch-size ${maxBatchSize} sets it from the start`,
  );
}
