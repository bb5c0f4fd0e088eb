/** A build in a front, as the supervisor's table says, and the connection to its engine process. */
import type { OpenedModel } from "../author/define.ts";
import { messageOf, SconceError } from "../base/errors.ts";
import type { ModelState } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { Link } from "../machine/processes/link.ts";
import { openPackaged } from "../package/code/load.ts";
import { ModelVersion } from "../package/model-version.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { Hooks } from "../pipeline/hooks.ts";
import { Bodies } from "../pipeline/inputs/body.ts";
import { InputDecoder } from "../pipeline/inputs/input-decoder.ts";
import { ItemFlow } from "../pipeline/item-flow.ts";
import type { ListItem } from "../pipeline/item-list.ts";
import { ItemPipeline } from "../pipeline/item-pipeline.ts";
import { runSetup, tearDown } from "../pipeline/set-up.ts";
import { RunningBuild } from "../predictions/running-build.ts";
import type { ServeConfig } from "./config.ts";
import type { FrontShared } from "./front-shared.ts";
import { type FromFront, labelOf, type ModelRecord } from "./messages.ts";
import { maxInputsOf, RETRY_LOAD_S } from "./serve-limits.ts";

/** The code of a build, and the way of its inputs. */
export interface OpenBuild extends AsyncDisposable {
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly hooks: Hooks;
  readonly decoder: InputDecoder;
  /** The engine; undefined with --role front, which runs no predictions. */
  readonly engine: RemoteEngine<ListItem> | undefined;
  readonly runs: RunningBuild;
}

export class ServedBuild {
  /** Options of the server, overridden by the model's own options. */
  readonly config: ServeConfig;
  readonly version: ModelVersion;
  /** The build in log lines. */
  readonly label: string;
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
  #isRequested = false;
  #readySinceMs = performance.now();
  readonly #started = Promise.withResolvers<void>();

  /** Starts without a connection. @param link connection to the supervisor */
  constructor(record: ModelRecord, config: ServeConfig, link: Pick<Link, "send" | "ask">) {
    const version = ModelVersion.of(record.reference);
    if (version === undefined) throw new RangeError(`${record.reference} is no build`);
    this.version = version;
    this.label = labelOf(record);
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
      this.#isRequested = false;
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
    if (this.#isRequested || this.state === "ready" || this.state === "loading") return;
    this.#isRequested = true;
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
    const message = `the model could not be loaded: ${this.#record.reason}`;
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
   * Opens the code of the build, runs its `setup`, and connects to the engine process as soon as it runs.
   * @throws SconceError an error of the model's code or set-up
   */
  async open({ memory, fetcher, lag, hookCell: cell, source, start, metricsOf }: FrontShared): Promise<OpenBuild> {
    await using opened = new AsyncDisposableStack();
    const { config, version, hasEngine, label } = this;
    const { reference, home, counts } = this.#record;
    const packaged = await source.resolve(reference, { home, weights: hasEngine });
    const model = await openPackaged(packaged, config.param);
    const hooks = new Hooks({ lag, cell, label, guilty: start.guilty });
    const decoder = new InputDecoder(model.input);
    const bodies = new Bodies(decoder);
    const metrics = metricsOf(counts);
    const maxInputs = maxInputsOf(model, config);
    const parts = { packaged, model, hooks, decoder };
    if (!hasEngine) {
      const runs = new RunningBuild({ flow: undefined, pipeline: undefined, bodies, version, maxInputs });
      const resources = opened.move();
      return { ...parts, engine: undefined, runs, [Symbol.asyncDispose]: () => resources.disposeAsync() };
    }
    opened.defer(() => tearDown(model));
    const engine = new RemoteEngine<ListItem>({ ...model.tensors, observer: metrics, onNeeded: () => this.need() });
    opened.defer(() => engine.close());
    this.#engine = engine;
    this.#device = (device) => {
      model.context.device = device;
    };
    this.#connect();
    await runSetup(model, (name) => packaged.layer(name).path);
    const pipeline = new ItemPipeline(model, fetcher, hooks);
    const { maxReadyBytes, maxFetches } = config;
    const fronts = start.count;
    const inFronts = fronts > 1 ? metrics : undefined;
    const limits = { maxReadyBytes, maxFetches, fronts, inFronts, memory, observer: metrics };
    const flow = new ItemFlow(engine, pipeline, limits);
    const runs = new RunningBuild({ flow, pipeline, engine, bodies, version, maxInputs });
    const resources = opened.move();
    return { ...parts, engine, runs, [Symbol.asyncDispose]: () => resources.disposeAsync() };
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
