/** Opens a build in a front: its code, its engine, and the way of its inputs. */
import type { OpenedModel } from "../author/define.ts";
import { openPackaged } from "../package/code/load.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { Hooks } from "../pipeline/hooks.ts";
import { Bodies } from "../pipeline/inputs/body.ts";
import { InputDecoder } from "../pipeline/inputs/input-decoder.ts";
import { ItemFlow } from "../pipeline/item-flow.ts";
import { type RunningModel, tearDown } from "../pipeline/set-up.ts";
import { RunningBuild } from "../predictions/running-build.ts";
import { maxInputsOf } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import type { ServedBuild } from "./served-build.ts";

/** The parts of one build of a model. Another build of the same name can replace them. */
export interface Build extends AsyncDisposable {
  readonly served: ServedBuild;
  readonly packaged: PackagedModel;
  readonly model: OpenedModel;
  readonly hooks: Hooks;
  readonly decoder: InputDecoder;
  readonly bodies: Bodies;
  /** The engine; undefined, like `flow`, with --role front, which runs no predictions. */
  readonly running: RunningModel | undefined;
  readonly flow: ItemFlow | undefined;
  readonly runs: RunningBuild;
}

/** @throws SconceError an error of the model's code or set-up */
export async function openBuild(shared: FrontShared, served: ServedBuild): Promise<Build> {
  await using opened = new AsyncDisposableStack();
  const { config, version, hasEngine } = served;
  const { reference, home, counts } = served.record;
  const { memory, fetcher, lag, hookCell: cell, source, start } = shared;
  const metrics = shared.metricsOf(counts);
  const packaged = await source.resolve(reference, { home, weights: hasEngine });
  const model = await openPackaged(packaged, config.param);
  const hooks = new Hooks({ lag, cell, guilty: start.guilty });
  if (hasEngine) opened.defer(() => tearDown(model));
  const running = hasEngine ? await served.open({ packaged, model, fetcher, metrics, hooks }) : undefined;
  opened.defer(() => running?.engine.close());
  const decoder = new InputDecoder(model.input);
  const bodies = new Bodies(decoder);
  const parts = { served, packaged, model, hooks, decoder, bodies };
  const { engine, pipeline } = running ?? {};
  const { maxReadyBytes, maxFetches } = config;
  const fronts = start.count;
  const inFronts = fronts > 1 ? metrics : undefined;
  const limits = { maxReadyBytes, maxFetches, fronts, inFronts, memory, observer: metrics };
  const flow = running && new ItemFlow(running.engine, running.pipeline, limits);
  const runs = new RunningBuild({ flow, pipeline, engine, bodies, version, maxInputs: maxInputsOf(model, config) });
  const resources = opened.move();
  return { ...parts, running, flow, runs, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}
