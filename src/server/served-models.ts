/** The models of a front, by name, as in the supervisor's table of builds. */
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { Outage } from "../http/routes/health.ts";
import type { ServedNames } from "../http/served-model.ts";
import type { Link } from "../machine/processes/link.ts";
import { FrontModel } from "./front-model.ts";
import type { FrontShared } from "./front-shared.ts";
import type { ModelRecord, Opening, Snapshot, ToFront } from "./messages.ts";
import { ServerMetrics } from "./metrics/server-metrics.ts";
import { ServedBuild } from "./served-build.ts";

interface Followed {
  readonly served: ServedBuild;
  readonly model: FrontModel;
  stage: ModelRecord["stage"];
  /** Resolves when the build is open, or could not be opened. */
  opening: Promise<Opening>;
}

export class ServedModels implements ServedNames {
  readonly list: readonly FrontModel[];
  readonly metrics: ServerMetrics;
  /** Resolves when the predictions of all fronts have ended. */
  readonly done = Promise.withResolvers<void>();
  readonly #shared: FrontShared;
  readonly #link: Pick<Link, "send" | "ask">;
  /** Models by each of their names in paths, such as `digits` and `digits:v1`. */
  #byName: ReadonlyMap<string, FrontModel>;
  readonly #builds = new Map<number, Followed>();
  readonly #opened = Promise.withResolvers<void>();
  /** Builds are opened, switched and closed one after another, after the models are open. */
  #work: Promise<unknown> = this.#opened.promise;
  #hasClaim: boolean;

  /** @param link connection to the supervisor */
  constructor(shared: FrontShared, link: Pick<Link, "send" | "ask">) {
    this.#shared = shared;
    this.#link = link;
    const { models, hasClaim } = shared.start.snapshot;
    const current = models.filter(({ stage }) => stage === "current");
    this.list = current.map((record) => {
      const served = this.#served(record);
      const model = new FrontModel(shared, served);
      this.#builds.set(record.number, { served, model, stage: record.stage, opening: Promise.resolve({}) });
      return model;
    });
    this.#byName = byName(this.list);
    this.#hasClaim = hasClaim;
    this.metrics = new ServerMetrics(shared.metrics, new Map(this.list.map(({ name, metrics }) => [name, metrics])));
  }

  /**
   * Opens the models. A model answers as soon as it is loaded.
   * @param opened closes the models when it is disposed
   * @param onSetUp called when the code of all models has run its set-up
   * @throws the fault of the first model, if all models have faults and no earlier process was ready
   */
  async open(opened: AsyncDisposableStack, onSetUp: () => void): Promise<void> {
    const { wasReady, snapshot } = this.#shared.start;
    const opening = this.list.map((model) => opened.use(model).open());
    const starting = this.list.map((model, i) => opening[i]?.then(() => model.start(snapshot.hasClaim)));
    await Promise.all(opening);
    const broken = this.list.filter(({ fault }) => fault !== undefined);
    if (broken.length === this.list.length && !wasReady) throw broken[0]?.fault;
    for (const { served, fault } of broken)
      log.error(`The model ${served.label} cannot be served: ${messageOf(fault)}`);
    onSetUp();
    await Promise.all(starting);
  }

  /** The front answers: builds that replace the current ones can be opened. */
  ready(): void {
    this.#opened.resolve();
  }

  named(text: string): FrontModel | undefined {
    return this.#byName.get(text);
  }

  /** Why no model can finish predictions; undefined if one can. */
  get outage(): Outage | undefined {
    const outages = this.list.map(({ outage }) => outage);
    return outages.every((each) => each !== undefined) ? outages[0] : undefined;
  }

  /** Answers a question of the supervisor. */
  answer(question: ToFront): unknown {
    if ("snapshot" in question) return this.apply(question.snapshot);
    if ("idle" in question) return this.#builds.get(question.idle)?.served.idleMs ?? Infinity;
    return "opened" in question
      ? this.#whenOpen(question.opened)
      : this.#builds.get(question.ended)?.model.earlierEnded;
  }

  /** Follows the table. @returns the numbers of draining builds that this front still needs */
  async apply({ models: records, hasClaim, isDone }: Snapshot): Promise<number[]> {
    const needed: number[] = [];
    const switches: Promise<void>[] = [];
    for (const record of records) {
      const { number, stage } = record;
      const build = this.#builds.get(number);
      if (build === undefined) {
        // A front that starts after a switch does not open the earlier build.
        if (stage === "next") this.#openNext(record);
        continue;
      }
      if (!build.served.apply(record)) needed.push(number);
      if (build.stage === "next" && stage === "current") switches.push(this.#switchTo(build));
      build.stage = stage;
    }
    const numbers = new Set(records.map(({ number }) => number));
    for (const [number, { model, stage }] of this.#builds) {
      if (numbers.has(number)) continue;
      this.#builds.delete(number);
      if (stage === "next") void this.#doNext(() => model.closeNext());
    }
    if (isDone) this.done.resolve();
    if (hasClaim && !this.#hasClaim) {
      this.#doNext(() => Promise.all(this.list.map((model) => model.claim()))).catch((error: unknown) =>
        log.error(error),
      );
    }
    this.#hasClaim = hasClaim;
    await Promise.all(switches);
    return needed;
  }

  /** Resolves when the `next` build is open and connected to its engine process, or could not be opened. */
  async #whenOpen(number: number): Promise<Opening> {
    const build = this.#builds.get(number);
    const opening = (await build?.opening) ?? {};
    await build?.served.connected;
    return opening;
  }

  #served(record: ModelRecord): ServedBuild {
    return new ServedBuild(record, this.#shared.start.config, this.#link);
  }

  #openNext(record: ModelRecord): void {
    const model = this.list.find(({ name }) => name === record.name);
    if (model === undefined) throw new RangeError(`there is no model ${record.name}`);
    const served = this.#served(record);
    const opening = this.#doNext(async () => {
      try {
        await model.openNext(served);
        return {};
      } catch (error) {
        return { failed: messageOf(error) };
      }
    });
    this.#builds.set(record.number, { served, model, stage: record.stage, opening });
  }

  #switchTo({ served, model, opening }: Followed): Promise<void> {
    return this.#doNext(async () => {
      const { failed } = await opening;
      // All other fronts have the new build. This one opens it at its next start.
      if (failed !== undefined) throw new Error(`${served.label} cannot be switched to: ${failed}`);
      await model.switchToNext();
      this.#byName = byName(this.list);
    });
  }

  /** Does work when the models are open, after earlier work. */
  #doNext<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work);
    this.#work = done.catch(() => {});
    return done;
  }
}

/** The first model with a name has it. */
function byName(list: readonly FrontModel[]): ReadonlyMap<string, FrontModel> {
  return new Map(list.toReversed().flatMap((model) => model.pathNames.map((name) => [name, model])));
}
