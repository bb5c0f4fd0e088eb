/** A build in a front, as the supervisor's table says, and the connection to its engine process. */
import type { OpenedModel } from "../author/define.ts";
import { messageOf, SconceError } from "../base/errors.ts";
import type { ModelState } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { Link } from "../machine/processes/link.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { Fetcher } from "../pipeline/fetcher.ts";
import type { Hooks } from "../pipeline/hooks.ts";
import type { ListItem } from "../pipeline/item-list.ts";
import { ItemPipeline } from "../pipeline/item-pipeline.ts";
import { type RunningModel, runSetup } from "../pipeline/set-up.ts";
import { ModelVersion } from "../predictions/model-version.ts";
import type { ServeConfig } from "./config.ts";
import type { FromFront, ModelRecord } from "./messages.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { RETRY_LOAD_S } from "./serve-limits.ts";

/** Parts that the engine needs when it is opened. */
export interface FrontTools {
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly fetcher: Fetcher;
  readonly metrics: Metrics;
  readonly hooks: Hooks;
}

export class ServedBuild {
  /** Options of the server, overridden by the model's own options. */
  readonly config: ServeConfig;
  readonly version: ModelVersion;
  onFailed: (reason: string) => void = () => {};
  /** Milliseconds since this process last had an unfinished prediction of the model; 0 while it has one. */
  predictionsIdleMs: () => number = () => 0;
  /** Resolves when the running attempt to connect has ended. */
  connected: Promise<void> = Promise.resolve();
  #record: ModelRecord;
  readonly #link: Pick<Link, "send" | "ask">;
  #engine: RemoteEngine<ListItem> | undefined;
  #device: ((device: string) => void) | undefined;
  /** Socket to which this process is connected, or connects. */
  #socket: string | undefined;
  #isConnecting = false;
  #hasAsked = false;
  #readySinceMs = performance.now();
  readonly #started = Promise.withResolvers<void>();

  /** Starts without a connection. @param link connection to the supervisor */
  constructor(record: ModelRecord, config: ServeConfig, link: Pick<Link, "send" | "ask">) {
    const version = ModelVersion.of(record.reference);
    if (version === undefined) throw new RangeError(`${record.reference} is no build`);
    this.version = version;
    this.config = { ...config, ...record.options };
    this.#record = record;
    this.#link = link;
  }

  /** The build in the supervisor's table. */
  get record(): ModelRecord {
    return this.#record;
  }

  get name(): string {
    return this.#record.name;
  }

  /** Whether an engine process runs the build. With --role front, other servers do. */
  get hasEngine(): boolean {
    return this.config.role !== "front";
  }

  get state(): ModelState {
    return this.#record.state;
  }

  /** The reason of the last failed load; undefined before a failure. */
  get reason(): string | undefined {
    return this.#record.reason;
  }

  get isUnloadedByClient(): boolean {
    return this.#record.isUnloadedByClient;
  }

  /** Whether an engine process should answer and none does. */
  get isBroken(): boolean {
    return this.state === "ready" && !this.#isConnecting && this.#engine?.isReady === false;
  }

  /** Follows the supervisor's table. @returns false if the model must be unloaded and a prediction of it runs */
  apply(record: ModelRecord): boolean {
    const before = this.#record;
    this.#record = record;
    if (!record.isStarting) this.#started.resolve();
    const engine = this.#engine;
    if (before.state !== record.state) {
      this.#hasAsked = false;
      if (record.state === "ready") this.#readySinceMs = performance.now();
      if (record.state === "failed") this.onFailed(record.reason ?? "");
    }
    if (before.socket !== undefined && before.socket !== record.socket) {
      this.#socket = undefined;
      engine?.engineEnded(`the engine process ${record.ended}`);
    }
    if (record.state === "draining") return this.#release();
    this.#connect();
    // Loads the model again if inputs arrived while it was being unloaded.
    if (record.state === "unloaded" && engine?.isNeeded) this.need();
    return true;
  }

  /** Waits for the load at the start of the server. A front that starts again waits for no engine process. */
  async started(): Promise<void> {
    if (!this.#record.isStarting) return;
    await this.#started.promise;
    await this.connected;
  }

  /** Asks the supervisor to load the model, unless it is loaded or already asked for. */
  need(): void {
    if (this.#hasAsked || this.state === "ready" || this.state === "loading") return;
    this.#hasAsked = true;
    this.#link.send({ number: this.#record.number, move: "need" } satisfies FromFront);
  }

  /** Loads the model, and waits. @throws SconceError `not_ready` with the reason of a failed load */
  async load(): Promise<void> {
    await this.#link.ask({ number: this.#record.number, move: "load" } satisfies FromFront);
    if (this.refusal !== undefined) throw this.refusal;
  }

  /** Asks the supervisor to unload the model once no prediction runs. Resolves when the model is unloaded. */
  async unload(): Promise<void> {
    await this.#link.ask({ number: this.#record.number, move: "unload" } satisfies FromFront);
  }

  /** The error for new predictions while the last load has failed; otherwise undefined. */
  get refusal(): SconceError | undefined {
    if (this.state !== "failed") return undefined;
    const message = `the model could not be loaded: ${this.reason}`;
    return new SconceError("not_ready", message, { refusal: "engine", retryAfterS: RETRY_LOAD_S });
  }

  /** The refusal of a new prediction, which asks for another load; undefined if the last load has not failed. */
  refuse(): SconceError | undefined {
    if (this.state === "failed") this.need();
    return this.refusal;
  }

  /** Milliseconds without a prediction since the engine process was ready; 0 while a prediction runs. */
  get idleMs(): number {
    return Math.min(this.predictionsIdleMs(), performance.now() - this.#readySinceMs);
  }

  /**
   * Runs the model's `setup`, and connects to the engine process as soon as it runs.
   * @throws SconceError `model_invalid` if `setup` fails
   */
  async open({ packaged, model, fetcher, metrics, hooks }: FrontTools): Promise<RunningModel> {
    const engine = new RemoteEngine<ListItem>({ ...model.tensors, observer: metrics, onNeeded: () => this.need() });
    this.#engine = engine;
    this.#device = (device) => {
      model.context.device = device;
    };
    this.#connect();
    await runSetup(model, (name) => packaged.layer(name).path);
    return {
      engine,
      pipeline: new ItemPipeline(model, fetcher, hooks),
      get facts() {
        return engine.info;
      },
    };
  }

  /** Disconnects from the engine process, which may then end. @returns false, without effect, while a prediction runs */
  #release(): boolean {
    const isReleased = this.predictionsIdleMs() > 0 && (this.#engine?.release() ?? true);
    if (isReleased) this.#socket = undefined;
    return isReleased;
  }

  #connect(): void {
    const { socket } = this.#record;
    const engine = this.#engine;
    if (socket === undefined || socket === this.#socket || engine === undefined) return;
    this.#socket = socket;
    this.#isConnecting = true;
    const connect = async () => {
      try {
        const info = await engine.connect(socket);
        this.#device?.(info.devices.join(","));
      } catch (error) {
        // The engine process has ended. The supervisor reports that, and starts another one.
        log.debug(`The engine process cannot be reached: ${messageOf(error)}`);
      } finally {
        if (this.#socket === socket) this.#isConnecting = false;
      }
    };
    this.connected = connect();
  }
}

/** Logs a lower batch limit. The failed batches run again in smaller parts, so a warning is enough. */
export function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: the limit is ${maxBatchSize} inputs for now; --batch-size ${maxBatchSize} sets it from the start`,
  );
}
