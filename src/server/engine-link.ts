/** A front's way to the engine process: connects to each one that is started, and hears of each one's end. */
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import type { ListItem } from "./flow/item-list.ts";
import { ItemPipeline } from "./flow/item-pipeline.ts";
import { logFacts, type RunningModel, runSetup, settingsOf, setUp } from "./flow/set-up.ts";
import type { FrontTools } from "./front.ts";
import { maxPaddedBytesOf } from "./serve-limits.ts";

/** What a front is told of the engine process. */
export interface EngineEvents {
  /** It listens at this path from now on. */
  ready(socket: string): void;
  /** @param reason follows "the engine process" */
  ended(reason: string): void;
}

export class EngineLink implements EngineEvents {
  #socket: string | undefined;
  #engine: RemoteEngine<ListItem> | undefined;
  readonly #first = Promise.withResolvers<void>();

  ready(socket: string): void {
    this.#socket = socket;
    void this.#connect();
  }

  ended(reason: string): void {
    this.#socket = undefined;
    this.#engine?.engineEnded(`the engine process ${reason}`);
  }

  /**
   * Gets the model's code ready and connects; resolves when there is an engine.
   * @throws SconceError `model_invalid` of the model's `setup`
   */
  async open(packaged: PackagedModel, { model, fetcher, fileCaps, metrics, hooks }: FrontTools): Promise<RunningModel> {
    const engine = new RemoteEngine<ListItem>({ ...model.tensors, observer: metrics });
    this.#engine = engine;
    await Promise.all([runSetup(model, (name) => packaged.layer(name).path), this.#connect(), this.#first.promise]);
    const { info } = engine;
    if (info === undefined) throw new RangeError("an engine that is connected has said what it is");
    return { engine, pipeline: new ItemPipeline(model, fetcher, fileCaps, hooks), facts: info };
  }

  async #connect(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || this.#engine === undefined) return;
    try {
      await this.#engine.connect(socket);
      this.#first.resolve();
    } catch (error) {
      // It has ended meanwhile, which will be told.
      log.debug(`The engine process cannot be reached: ${messageOf(error)}`);
    }
  }
}

/** One warning each time: the batches that failed are run again and do not matter. */
export function logShrink(maxBatchSize: number): void {
  log.warn(
    `The device has too little memory for larger batches: they have at most ${maxBatchSize} for now; --batch-size ${maxBatchSize} makes that so from the start`,
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
    golden: config.golden ? packaged.golden : undefined,
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
