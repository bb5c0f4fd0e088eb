/** The models of a front, by name. */
import type { Hindrance } from "../http/routes/health.ts";
import type { ServedName, ServedNames } from "../http/served-model.ts";
import type { FrontModel } from "./front-model.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ServerMetrics } from "./metrics/server-metrics.ts";
import type { ServedBuild } from "./served-build.ts";
import { ServedEntry } from "./served-entry.ts";
import { hindranceOf } from "./served-model.ts";

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
  get hindrance(): Hindrance | undefined {
    const hindrances = this.opened.map(hindranceOf);
    if (hindrances.length === 0) return "engine";
    return hindrances.every((each) => each !== undefined) ? hindrances[0] : undefined;
  }
}

/** The first model with a name has it. */
function byName(list: readonly ServedEntry[]): ReadonlyMap<string, ServedEntry> {
  return new Map(list.toReversed().flatMap((entry) => entry.pathNames.map((name) => [name, entry])));
}
