/** A build of a model that runs predictions in this process. */
import { until } from "../base/until.ts";
import type { RemoteEngine } from "../engine/remote/remote-engine.ts";
import type { ModelVersion } from "../package/model-version.ts";
import type { Bodies } from "../pipeline/inputs/body.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import type { ListItem } from "../pipeline/item-list.ts";
import type { ItemPipeline } from "../pipeline/item-pipeline.ts";
import type { Kind } from "./record.ts";

export interface BuildParts {
  /** The way of inputs through the engine; undefined, like `pipeline`, in a process that runs no predictions. */
  readonly flow: ItemFlow | undefined;
  readonly pipeline: ItemPipeline | undefined;
  /** The engine, whose size limits the claims of a shared store. Undefined in a process that claims none. */
  readonly engine?: Pick<RemoteEngine<ListItem>, "isReady" | "maxBatchSize" | "instances"> | undefined;
  readonly bodies: Bodies;
  /** The build that predictions name; undefined outside a server. */
  readonly version: ModelVersion | undefined;
  /** Maximum inputs of one request, by kind of prediction. */
  readonly maxInputs: Readonly<Record<Kind, number>>;
}

/** Counts its predictions: a build that another one has replaced is closed after its last prediction. */
export class RunningBuild {
  readonly parts: BuildParts;
  #running = 0;

  constructor(parts: BuildParts) {
    this.parts = parts;
  }

  /** Counts a prediction, from the decoding of its body on. */
  enter(): void {
    this.#running += 1;
  }

  /** Subtracts a prediction that has ended, or that was refused. */
  ended(): void {
    this.#running -= 1;
  }

  /** Resolves when the build runs no prediction. */
  idle(): Promise<void> {
    return until(() => this.#running === 0, Infinity);
  }
}
