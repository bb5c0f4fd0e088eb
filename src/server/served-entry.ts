/** A model in an HTTP process, and its names in requests. A model that cannot be opened answers with an error. */
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { BrokenModel, NamedModel } from "../http/apis/api.ts";
import type { RequestContext } from "../http/request.ts";
import { brokenModel } from "../http/routes/models.ts";
import type { ServedModel } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import type { Predictions } from "../predictions/predictions.ts";
import { reasonForClients } from "./broken-model.ts";
import { hindranceOf, servedModel } from "./front-app.ts";
import { gaugesOf } from "./front-gauges.ts";
import { FrontModel } from "./front-model.ts";
import type { FrontModelOptions } from "./front-options.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";

export type Answer = (request: Request, context: RequestContext) => Response | Promise<Response>;

/** A model of the server. `front` and `served` are undefined for a model that cannot be opened. */
export interface Entry {
  /** Options of the build that answers. */
  options: FrontModelOptions;
  readonly metrics: Metrics;
  readonly front: FrontModel | undefined;
  served: ServedModel | undefined;
  /** Why clients cannot use the model; undefined for a usable model. */
  readonly fault: string | undefined;
  /** The apps of the model, each for one URL path before the routes and made at its first request. */
  readonly apps: Map<string, Promise<Answer>>;
}

/**
 * Opens a model.
 * @param opened gets the model, and closes it when it is disposed
 * @throws SconceError if the server's only model cannot be opened, and no earlier process was ready
 */
export async function openEntry(
  shared: FrontShared,
  options: FrontModelOptions,
  opened: AsyncDisposableStack,
): Promise<Entry> {
  const { metrics = shared.metrics } = options;
  try {
    const front = opened.use(await FrontModel.open(shared, options));
    metrics.watch(() => gaugesOf(front));
    front.lifecycle.hindrance = () => hindranceOf(front);
    const served = await servedModel(front);
    return { options, metrics, front, served, fault: undefined, apps: new Map() };
  } catch (error) {
    const { models, wasReady = false } = shared.options;
    if (models.length === 1 && !wasReady) throw error;
    log.error(`The model ${options.name} cannot be served: ${messageOf(error)}`);
    // The broken model counts as idle for ever, so that its engine process can be unloaded for other models.
    if (options.engine !== undefined) options.engine.predictionsIdleMs = () => Infinity;
    return { options, metrics, front: undefined, served: undefined, fault: reasonForClients(error), apps: new Map() };
  }
}

/** Opens another build beside the one that answers. @throws SconceError an error of its set-up */
export async function openNext({ front, metrics }: Entry, options: FrontModelOptions): Promise<void> {
  if (front === undefined) throw new Error("the model cannot be served; restart the server");
  await front.openNext({ ...options, metrics });
}

/** Names in paths that mean a model. */
export function pathNamesOf({ options: { name, tag, version } }: Entry): readonly string[] {
  return [name, `${name}:${tag}`, `${name}:${generatedTag(version.digest)}`];
}

/** The model for requests that name it; empty for a worker. */
export function namesOf({
  front,
  served,
  metrics,
  options,
  fault,
}: Entry): readonly (NamedModel<Predictions> | BrokenModel)[] {
  const predictions = front?.predictions;
  if (served !== undefined && predictions !== undefined) return [{ model: served, predictions, metrics }];
  if (fault === undefined) return [];
  const { digest } = options.version;
  return [{ model: { name: options.name, tag: generatedTag(digest), digest }, refusal: brokenModel(fault) }];
}
