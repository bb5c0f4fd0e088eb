/** Options of an API of other servers, and the models that its requests may name. */
import type { Context } from "hono";
import type { RequestMetrics } from "../metrics.ts";
import type { HttpOptions } from "../options.ts";
import type { Problem } from "../problem.ts";
import type { Lifecycle } from "../routes/health.ts";
import type { ServedModel } from "../served-model.ts";
import type { WaitedPredictions } from "./waited-predictions.ts";

export interface NamedModel<P = WaitedPredictions> {
  readonly model: ServedModel;
  readonly predictions: P;
  readonly metrics: RequestMetrics;
}

/** A model that could not be opened. Requests that name it get the error `refusal`. */
export interface BrokenModel {
  readonly model: Pick<ServedModel, "name" | "tag" | "digest">;
  readonly refusal: Error;
}

export interface ApiOptions {
  readonly model: ServedModel;
  /** The models that a request may name: only `model` if the path names a model. */
  readonly named: readonly (NamedModel | BrokenModel)[];
  readonly version: string;
  readonly lifecycle: Lifecycle;
  /** Whether a client has unloaded the model. Default: false. */
  readonly isUnloadedByClient?: (() => boolean) | undefined;
  readonly predictions: WaitedPredictions;
  readonly metrics: RequestMetrics;
  readonly config: HttpOptions;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** Answers errors at the paths of one API in the format of the API, even if a check refuses the request before its route runs. */
export interface ErrorForm {
  readonly hasPath: (path: string) => boolean;
  readonly answer: (c: Context, problem: Problem, error: unknown) => Response;
}
