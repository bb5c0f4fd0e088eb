/** The builds in a front. They follow the supervisor's table. */
import { messageOf } from "../base/errors.ts";
import type { Link } from "../machine/processes/link.ts";
import type { ServeConfig } from "./config.ts";
import type { ModelRecord, Opening } from "./messages.ts";
import { ServedBuild } from "./served-build.ts";
import type { ServedModels } from "./served-models.ts";

interface Followed {
  readonly served: ServedBuild;
  stage: ModelRecord["stage"];
  /** Resolves when the build is open, or could not be opened. */
  opening: Promise<Opening>;
}

export class FrontBuilds {
  readonly #config: ServeConfig;
  readonly #link: Pick<Link, "send" | "ask">;
  readonly #builds = new Map<number, Followed>();
  readonly #models = Promise.withResolvers<ServedModels>();
  /** Builds are opened, switched and closed one after another. */
  #work: Promise<unknown> = this.#models.promise;

  /** @param link connection to the supervisor */
  constructor(config: ServeConfig, link: Pick<Link, "send" | "ask">) {
    this.#config = config;
    this.#link = link;
  }

  /** Adds a build, without opening it. */
  add(record: ModelRecord): Followed {
    const served = new ServedBuild(record, this.#config, this.#link);
    const build = { served, stage: record.stage, opening: Promise.resolve({}) };
    this.#builds.set(record.number, build);
    return build;
  }

  /** The models of this front are open: builds that replace theirs can be opened. */
  opened(models: ServedModels): void {
    this.#models.resolve(models);
  }

  /** Follows the table. @returns the numbers of draining builds that this front still needs */
  async apply(records: readonly ModelRecord[]): Promise<number[]> {
    const needed: number[] = [];
    const switches: Promise<void>[] = [];
    for (const record of records) {
      const { number, stage } = record;
      const build = this.#builds.get(number);
      if (build === undefined) {
        // A front that starts after a switch does not open the earlier build.
        if (stage === "next") this.#open(this.add(record));
        continue;
      }
      if (!build.served.apply(record)) needed.push(number);
      if (build.stage === "next" && stage === "current") switches.push(this.#switchTo(build));
      build.stage = stage;
    }
    const numbers = new Set(records.map(({ number }) => number));
    for (const [number, { served, stage }] of this.#builds) {
      if (numbers.has(number)) continue;
      this.#builds.delete(number);
      if (stage === "next") void this.work((models) => models.of(served.name).closeNext());
    }
    await Promise.all(switches);
    return needed;
  }

  /** Resolves when the `next` build is open and connected to its engine process, or could not be opened. */
  async whenOpen(number: number): Promise<Opening> {
    const build = this.#builds.get(number);
    const opening = (await build?.opening) ?? {};
    await build?.served.connected;
    return opening;
  }

  /** Resolves when the `earlier` build has ended its predictions, and is closed. */
  async whenEnded(number: number): Promise<void> {
    const build = this.#builds.get(number);
    if (build !== undefined) await (await this.#models.promise).of(build.served.name).earlierEnded();
  }

  /** Milliseconds since this front last had a prediction of the build. */
  idleMs(number: number): number {
    return this.#builds.get(number)?.served.idleMs ?? Infinity;
  }

  #open(build: Followed): void {
    build.opening = this.work(async (models) => {
      try {
        await models.of(build.served.name).openNext(build.served);
        return {};
      } catch (error) {
        return { failed: messageOf(error) };
      }
    });
  }

  #switchTo({ served: { name }, opening }: Followed): Promise<void> {
    return this.work(async (models) => {
      const { failed } = await opening;
      // All other fronts have the new build. This one opens it at its next start.
      if (failed !== undefined) throw new Error(`${name} cannot be switched: ${failed}`);
      await models.switchToNext(name);
    });
  }

  /** Does work when the models are open, after earlier work. */
  work<T>(work: (models: ServedModels) => Promise<T>): Promise<T> {
    const done = this.#work.then(async () => work(await this.#models.promise));
    this.#work = done.catch(() => {});
    return done;
  }
}
