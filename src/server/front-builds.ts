/** The builds in a front. They follow the supervisor's table. */
import { messageOf } from "../base/errors.ts";
import type { Link } from "../machine/processes/link.ts";
import { EngineLink } from "./engine-link.ts";
import type { FrontModelOptions } from "./front-options.ts";
import type { ModelRecord, Opening } from "./messages.ts";
import type { ServedModels } from "./served-models.ts";

export interface FrontBuildsOptions {
  readonly link: Pick<Link, "send" | "ask">;
  /** The options with which this front opens a build. */
  readonly optionsOf: (record: ModelRecord, engine: EngineLink) => FrontModelOptions;
  /** The models of this front, once they are open. */
  readonly served: Promise<ServedModels>;
}

interface FrontBuild {
  readonly name: string;
  readonly engine: EngineLink;
  readonly options: FrontModelOptions;
  stage: ModelRecord["stage"];
  /** Resolves when the build is open, or could not be opened. */
  opening: Promise<Opening>;
}

export class FrontBuilds {
  readonly #options: FrontBuildsOptions;
  readonly #builds = new Map<number, FrontBuild>();
  /** Builds are opened, switched and closed one after another. */
  #work: Promise<unknown> = Promise.resolve();

  constructor(options: FrontBuildsOptions) {
    this.#options = options;
  }

  /** Adds a build, without opening it. */
  add(record: ModelRecord): FrontBuild {
    const { link, optionsOf } = this.#options;
    const { number, name, stage } = record;
    const engine = new EngineLink(record, link);
    const build = { name, engine, options: optionsOf(record, engine), stage, opening: Promise.resolve({}) };
    this.#builds.set(number, build);
    return build;
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
      if (!build.engine.apply(record)) needed.push(number);
      if (build.stage === "next" && stage === "current") switches.push(this.#switchTo(build));
      build.stage = stage;
    }
    const numbers = new Set(records.map(({ number }) => number));
    for (const [number, { name, stage }] of this.#builds) {
      if (numbers.has(number)) continue;
      this.#builds.delete(number);
      if (stage === "next") void this.#then((served) => served.closeNext(name));
    }
    await Promise.all(switches);
    return needed;
  }

  /** Resolves when the `next` build is open and connected to its engine process, or could not be opened. */
  async opened(number: number): Promise<Opening> {
    const build = this.#builds.get(number);
    const opening = (await build?.opening) ?? {};
    await build?.engine.connected;
    return opening;
  }

  /** Resolves when the `earlier` build has ended its predictions, and is closed. */
  async ended(number: number): Promise<void> {
    const build = this.#builds.get(number);
    if (build !== undefined) await (await this.#options.served).earlierEnded(build.name);
  }

  /** Milliseconds since this front last had a prediction of the build. */
  idleMs(number: number): number {
    return this.#builds.get(number)?.engine.idleMs ?? Infinity;
  }

  /** Resolves when all attempts to connect to engine processes have ended. */
  async connected(): Promise<void> {
    await Promise.all([...this.#builds.values()].map(({ engine }) => engine.connected));
  }

  #open(build: FrontBuild): void {
    build.opening = this.#then(async (served) => {
      try {
        await served.openNext(build.options);
        return {};
      } catch (error) {
        return { failed: messageOf(error) };
      }
    });
  }

  #switchTo({ name, opening }: FrontBuild): Promise<void> {
    return this.#then(async (served) => {
      const { failed } = await opening;
      // All other fronts have the new build. This one opens it at its next start.
      if (failed !== undefined) throw new Error(`${name} cannot be switched: ${failed}`);
      await served.switchToNext(name);
    });
  }

  #then<T>(work: (served: ServedModels) => Promise<T>): Promise<T> {
    const done = this.#work.then(async () => work(await this.#options.served));
    this.#work = done.catch(() => {});
    return done;
  }
}
