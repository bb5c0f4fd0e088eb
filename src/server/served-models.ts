/** The models of a front, by name. A model that cannot be opened answers with an error. */

import { messageOf } from "../base/errors.ts";
import type { ModelState, Unready } from "../base/labels.ts";
import { log } from "../base/log.ts";
import type { ProblemError } from "../http/problem.ts";
import { notReady, type Outage, type Pending } from "../http/routes/health.ts";
import { brokenModel } from "../http/routes/models.ts";
import type { ModelMoves, ServedModel, ServedName, ServedNames } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import { reasonForClients } from "./broken-model.ts";
import { gaugesOf } from "./front-gauges.ts";
import { FrontModel } from "./front-model.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ServerMetrics } from "./metrics/server-metrics.ts";
import type { ServedBuild } from "./served-build.ts";
import { outageOf, servedModel } from "./served-model.ts";

export class ServedModels implements ServedNames {
  readonly list: readonly ServedEntry[];
  /** Models by each of their names in paths, such as `digits` and `digits:v1`. */
  #byName: ReadonlyMap<string, ServedEntry>;
  readonly metrics: Pick<Metrics, "text" | "gauges">;

  /** @param builds the builds that answer, in the order of the models */
  constructor(shared: FrontShared, builds: readonly ServedBuild[]) {
    this.list = builds.map((build) => new ServedEntry(shared, build));
    this.#byName = byName(this.list);
    this.metrics =
      this.list.length === 1
        ? shared.metrics
        : new ServerMetrics(shared.metrics, new Map(this.list.map(({ name, metrics }) => [name, metrics])));
  }

  /**
   * Opens the models. Each answers as soon as it is loaded.
   * @param opened gets the models, and closes them when it is disposed
   * @param options.hasClaim whether no other server runs the predictions of the stores
   * @param options.onSetUp called when the code of all models has run its set-up
   * @throws SconceError if the server's only model is broken. Among several, a broken model answers with its error.
   */
  async open(
    opened: AsyncDisposableStack,
    { hasClaim, onSetUp }: { readonly hasClaim: boolean; readonly onSetUp: () => void },
  ): Promise<void> {
    const opening = this.list.map((entry) => entry.open(opened));
    const starting = this.list.map((entry, i) => opening[i]?.then(() => entry.start(hasClaim)));
    await Promise.all([Promise.all(opening).then(onSetUp), ...starting]);
  }

  named(text: string): ServedName | undefined {
    return this.#byName.get(text);
  }

  /** Gives new requests to the opened build. */
  async switchToNext(name: string): Promise<void> {
    await this.of(name).switchToNext();
    this.#byName = byName(this.list);
  }

  /** Runs the unfinished predictions of the server that had the port before, and has ended. */
  async claim(): Promise<void> {
    await Promise.all(this.opened.map((model) => model.claim()));
  }

  of(name: string): ServedEntry {
    const entry = this.list.find((each) => each.name === name);
    if (entry === undefined) throw new RangeError(`there is no model ${name}`);
    return entry;
  }

  get opened(): FrontModel[] {
    return this.list.flatMap(({ front }) => front ?? []);
  }

  /** Why no model can finish predictions; undefined if one can. */
  get outage(): Outage | undefined {
    const outages = this.opened.map(outageOf);
    if (outages.length === 0) return "engine";
    return outages.every((each) => each !== undefined) ? outages[0] : undefined;
  }
}

/** The first model with a name has it. */
function byName(list: readonly ServedEntry[]): ReadonlyMap<string, ServedEntry> {
  return new Map(list.toReversed().flatMap((entry) => entry.pathNames.map((name) => [name, entry])));
}

/** A name that a front serves, with its model. */
class ServedEntry implements ServedName {
  readonly #shared: FrontShared;
  /** The build that answers. */
  #build: ServedBuild;
  readonly metrics: Metrics;
  /** Undefined until `open`, and for a model that cannot be opened. */
  front: FrontModel | undefined;
  model: ServedModel | ProblemError;
  /** Whether requests reach the model, or get its fault. */
  #isOpen = false;
  /** Why clients cannot use the model; undefined for a usable model. */
  #fault: string | undefined;

  constructor(shared: FrontShared, build: ServedBuild) {
    this.#shared = shared;
    this.#build = build;
    this.metrics = shared.metricsOf(build.record.counts);
    this.model = notReady(shared.lifecycle.pending ?? "starting");
  }

  get name(): string {
    return this.#build.name;
  }

  get digest(): string {
    return this.#build.version.digest;
  }

  get tag(): string {
    return generatedTag(this.digest);
  }

  get state(): ModelState {
    return this.#fault === undefined ? this.#build.state : "failed";
  }

  get reason(): string | undefined {
    return this.#fault ?? (this.state === "failed" ? this.#build.reason : undefined);
  }

  get unready(): Unready | undefined {
    const { phase } = this.#shared.lifecycle;
    if (this.pending !== undefined || this.front === undefined) return this.pending ?? "engine";
    return phase === "draining" ? phase : outageOf(this.front);
  }

  get pending(): Pending | undefined {
    return this.#isOpen ? undefined : (this.#shared.lifecycle.pending ?? "starting");
  }

  get moves(): ModelMoves | undefined {
    return this.#build.hasEngine ? this.#build : undefined;
  }

  /** Texts in paths that mean the model. */
  get pathNames(): readonly string[] {
    return [this.name, `${this.name}:${this.#build.record.tag}`, `${this.name}:${this.tag}`];
  }

  /**
   * Opens the model, without answering requests.
   * @param opened gets the model, and closes it when it is disposed
   * @throws SconceError if the server's only model cannot be opened, and no earlier process was ready
   */
  async open(opened: AsyncDisposableStack): Promise<void> {
    const build = this.#build;
    const { start, isSeveral } = this.#shared;
    try {
      const front = opened.use(await FrontModel.open(this.#shared, build));
      this.metrics.watch(() => gaugesOf(front, this.unready));
      this.front = front;
    } catch (error) {
      if (!isSeveral && !start.wasReady) throw error;
      log.error(`The model ${build.name} cannot be served: ${messageOf(error)}`);
      // The broken model counts as idle for ever, so that its engine process can be unloaded for other models.
      build.predictionsIdleMs = () => Infinity;
      this.#fault = reasonForClients(error);
      this.model = brokenModel(this.#fault);
    }
  }

  /**
   * Answers requests, once the server has loaded the model. Before, continues predictions of an earlier process.
   * @param hasClaim whether no other server runs the predictions of the store; false with --take-over
   */
  async start(hasClaim: boolean): Promise<void> {
    const { front } = this;
    if (front !== undefined) {
      await front.served.started();
      await front.start(hasClaim);
      this.model = await servedModel(front);
    }
    this.#isOpen = true;
  }

  /** Opens another build beside the one that answers. @throws SconceError an error of its set-up */
  async openNext(build: ServedBuild): Promise<void> {
    if (this.front === undefined) throw new Error("the model cannot be served; restart the server");
    await this.front.openNext(build);
  }

  /** Closes a build that `openNext` opened. */
  async closeNext(): Promise<void> {
    await this.front?.closeNext();
  }

  /** Resolves when the build that `switchToNext` has replaced has ended its predictions, and is closed. */
  async earlierEnded(): Promise<void> {
    await this.front?.earlierEnded;
  }

  /** Gives new requests to the opened build. */
  async switchToNext(): Promise<void> {
    const { front } = this;
    if (front === undefined) return;
    front.switchToNext();
    this.#build = front.served;
    this.model = await servedModel(front);
  }
}
