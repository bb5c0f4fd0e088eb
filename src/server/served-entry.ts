/** A model in an HTTP process, and its names in requests. A model that cannot be opened answers with an error. */
import { codedError, messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { generatedTag } from "../package/store/reference.ts";
import { reasonForClients } from "./broken-model.ts";
import { hindranceOf, servedModel } from "./front-app.ts";
import { gaugesOf } from "./front-gauges.ts";
import { FrontModel } from "./front-model.ts";
import { type FrontModelOptions, openModelParts } from "./front-model-parts.ts";
import type { FrontShared } from "./front-shared.ts";
import type { BrokenModel, NamedModel } from "./http/apis/apis.ts";
import type { ServedModel } from "./http/app.ts";
import type { RequestContext } from "./http/request.ts";
import { brokenModel } from "./http/routes/models.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Predictions } from "./predictions/predictions.ts";
import type { SplitShare } from "./predictions/split.ts";

export type Answer = (request: Request, context: RequestContext) => Response | Promise<Response>;

/** A model of the server. `front` and `served` are undefined for a model that cannot be opened. */
export interface Entry {
  readonly options: FrontModelOptions;
  readonly metrics: Metrics;
  readonly front: FrontModel | undefined;
  readonly served: ServedModel | undefined;
  /** Why clients cannot use the model; undefined for a usable model. */
  readonly fault: string | undefined;
  /** The apps of the model, each for one URL path before the routes and made at its first request. */
  readonly apps: Map<string, Promise<Answer>>;
}

/** The versions that share the traffic of a name. */
export interface Split {
  readonly name: string;
  readonly creating: Map<string, Predictions>;
  readonly versions: readonly Version[];
}

export interface Version extends SplitShare {
  readonly entry: Entry;
}

export async function openEntry(
  shared: FrontShared,
  options: FrontModelOptions,
  opened: AsyncDisposableStack,
): Promise<Entry> {
  const { metrics = shared.metrics } = options;
  await using own = new AsyncDisposableStack();
  try {
    const front = new FrontModel(shared, options, await openModelParts(shared, options, own));
    metrics.watch(() => gaugesOf(front));
    front.lifecycle.hindrance = () => hindranceOf(front);
    const served = await servedModel(front);
    opened.use(own.move());
    return { options, metrics, front, served, fault: undefined, apps: new Map() };
  } catch (error) {
    const { models, mayListen } = shared.options;
    // A newer server does not take over with a broken model, unless only the model's store is damaged.
    const endsUpgrade = mayListen !== undefined && codedError(error).code !== "predictions_unusable";
    if (models.length === 1 || endsUpgrade) throw error;
    log.error(`The model ${options.name} cannot be served: ${messageOf(error)}`);
    // The broken model counts as idle for ever, so that its engine process can be unloaded for other models.
    if (options.engine !== undefined) options.engine.predictionsIdleMs = () => Infinity;
    return { options, metrics, front: undefined, served: undefined, fault: reasonForClients(error), apps: new Map() };
  }
}

/**
 * The model under each name that requests may use; empty for a worker.
 * @param split common name of versions that share traffic; `isFor` tells which requests mean this version
 */
export function namesOf(
  { front, served, metrics, options, fault }: Entry,
  split?: { readonly name: string } & Required<Pick<NamedModel, "isFor">>,
): readonly (NamedModel<Predictions> | BrokenModel)[] {
  const predictions = front?.predictions;
  if (served !== undefined && predictions !== undefined) {
    const own = { model: served, predictions, metrics };
    return split === undefined ? [own] : [{ ...own, model: renamed(served, split.name), isFor: split.isFor }, own];
  }
  if (fault === undefined) return [];
  const { digest } = options.packaged;
  const own = { model: { name: options.name, tag: generatedTag(digest), digest }, refusal: brokenModel(fault) };
  return split === undefined ? [own] : [{ ...own, model: { ...own.model, name: split.name }, isFor: split.isFor }, own];
}

/** Gives a version the common name of versions that share traffic. */
export function renamed(model: ServedModel, name: string): ServedModel {
  return {
    ...model,
    name,
    // A getter, because the batch size may change later.
    get batchSize() {
      return model.batchSize;
    },
  };
}
