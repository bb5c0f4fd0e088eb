/** A front's connection to the engine process, through restarts of that process. */
import { messageOf, SconceError } from "../base/errors.ts";
import type { RestartCause } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import type { ListItem } from "./flow/item-list.ts";
import { ItemPipeline } from "./flow/item-pipeline.ts";
import { logFacts, type RunningModel, runSetup, settingsOf, setUp } from "./flow/set-up.ts";
import type { FrontTools } from "./front-model.ts";
import { maxPaddedBytesOf } from "./serve-limits.ts";

export interface EngineEvents {
  /** The engine process listens at this path. */
  ready(socket: string): void;
  /**
   * @param reason follows "the engine process"
   * @param cause undefined for a process that the server has stopped
   */
  ended(reason: string, cause?: RestartCause): void;
  /** The engine process could not be started. */
  failed(reason: string): void;
  /** The engine process gives no sign of life, or answers again. */
  silent(isSilent: boolean): void;
}

export class EngineLink implements EngineEvents {
  #socket: string | undefined;
  #engine: RemoteEngine<ListItem> | undefined;
  readonly #connected = Promise.withResolvers<void>();

  ready(socket: string): void {
    this.#socket = socket;
    void this.#connect();
  }

  ended(reason: string): void {
    this.#socket = undefined;
    this.silent(false);
    this.#engine?.engineEnded(`the engine process ${reason}`);
  }

  failed(reason: string): void {
    this.#connected.reject(new SconceError("processes_unavailable", reason));
    // The model's code may still run its set-up.
    this.#connected.promise.catch(() => {});
  }

  silent(isSilent: boolean): void {
    if (this.#engine !== undefined) this.#engine.isSilent = isSilent;
  }

  /**
   * Runs the model's `setup` and connects; resolves when the engine is ready.
   * @throws SconceError `model_invalid` if `setup` fails
   */
  async open(packaged: PackagedModel, { model, fetcher, fileCaps, metrics, hooks }: FrontTools): Promise<RunningModel> {
    const engine = new RemoteEngine<ListItem>({ ...model.tensors, observer: metrics });
    this.#engine = engine;
    await Promise.all([runSetup(model, (name) => packaged.layer(name).path), this.#connect(), this.#connected.promise]);
    const { info } = engine;
    if (info === undefined) throw new RangeError("a connected engine has sent its info");
    model.shared.device = info.devices.join(",");
    return { engine, pipeline: new ItemPipeline(model, fetcher, fileCaps, hooks), facts: info };
  }

  async #connect(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || this.#engine === undefined) return;
    try {
      await this.#engine.connect(socket);
      this.#connected.resolve();
    } catch (error) {
      // The process has ended. The supervisor will report that and start another.
      log.debug(`The engine process cannot be reached: ${messageOf(error)}`);
    }
  }
}

/** The failed batches run again in smaller parts, so this warning is all that a log needs. */
export function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: the limit is ${maxBatchSize} inputs for now; --batch-size ${maxBatchSize} sets it from the start`,
  );
}

export async function runHere(
  packaged: PackagedModel,
  config: ServeConfig,
  { model, fetcher, fileCaps, metrics, hooks }: FrontTools,
): Promise<RunningModel> {
  const running = await setUp({
    model,
    pathOf: (name) => packaged.layer(name).path,
    example: packaged.config.example,
    // Parameters may change what `predict` gives.
    golden: config.golden && config.param.length === 0 ? packaged.golden : undefined,
    settings: settingsOf(config),
    fetcher,
    fileCaps,
    hooks,
    maxPaddedBytes: maxPaddedBytesOf(config),
    observer: metrics,
    onShrink: logShrink,
  });
  logFacts(running.facts);
  return running;
}
