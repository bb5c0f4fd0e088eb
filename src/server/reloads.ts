/** Replaces the builds of a running server: a new build starts beside the old one, and then gets its name. */
import { messageOf } from "../base/errors.ts";
import type { Reload } from "../http/server-control.ts";
import type { EngineLoads } from "./engine-loads.ts";
import type { Fronts, FrontsModel } from "./fronts.ts";
import type { ModelEngine, ServedOptions } from "./model-engine.ts";
import type { ModelFronts } from "./model-fronts.ts";

export interface ReloadsOptions {
  readonly models: readonly FrontsModel[];
  readonly fronts: Fronts;
  readonly loads: EngineLoads;
  /** Finds the builds that the references of the command line name now. */
  readonly resolveAgain: (() => Promise<readonly ServedOptions[]>) | undefined;
  readonly engineOf: (model: FrontsModel, events: ModelFronts) => ModelEngine;
  /** The engine processes of the models, and their news. */
  readonly running: readonly Running[];
  readonly log: ReloadLog;
}

/** Log of the builds that start, answer and end. */
export type ReloadLog = { readonly [L in "info" | "error"]: (text: string) => void };

interface Running {
  readonly engine: ModelEngine;
  readonly fronts: ModelFronts;
}

/** A build that is open in all HTTP processes, and answers no requests yet. */
interface OpenedBuild extends Running {
  readonly slot: number;
  readonly model: FrontsModel;
}

interface OpenOptions {
  readonly slot: number;
  readonly current: FrontsModel;
  readonly next: ServedOptions;
  readonly earlier: number;
  readonly kept: Running | undefined;
}

export class Reloads {
  readonly #options: ReloadsOptions;
  /** The builds that answer, in the order of the models. */
  readonly #models: FrontsModel[];
  readonly #running: Running[];
  #isReloading = false;

  constructor(options: ReloadsOptions) {
    this.#options = options;
    this.#models = [...options.models];
    this.#running = [...options.running];
  }

  /** Index of the model whose build has this number; -1 for a build that another one has replaced. */
  slotOf(number: number): number {
    return this.#models.findIndex((model) => model.number === number);
  }

  /**
   * Replaces each build whose reference names another build now; if one cannot start, nothing changes. Resolves when
   * the new builds answer; the old ones then finish their predictions.
   */
  async reload(): Promise<Reload> {
    if (this.#isReloading) return { refused: "another reload is running; try again when it has ended" };
    const queue = this.#models.find(({ config }) => config.queue !== undefined);
    if (queue !== undefined)
      return { refused: "servers with --queue get a new build one after the other: stop and start each server" };
    this.#isReloading = true;
    try {
      return await this.#reload();
    } catch (error) {
      return { failed: messageOf(error) };
    } finally {
      this.#isReloading = false;
    }
  }

  async #reload(): Promise<Reload> {
    const { resolveAgain, log } = this.#options;
    const found = (await resolveAgain?.()) ?? [];
    const names = (models: readonly { readonly name: string }[]) => models.map(({ name }) => name).join(", ");
    if (names(found) !== names(this.#models))
      return {
        refused: `the models to serve are ${names(found) || "none"} now, not ${names(this.#models)}: restart the server`,
      };
    const opened: OpenedBuild[] = [];
    for (const [slot, next] of found.entries()) {
      const current = this.#models[slot];
      const running = this.#running[slot];
      if (current === undefined || running === undefined) continue;
      if (current.packaged.digest === next.packaged.digest) continue;
      log.info(`${next.name}: ${next.packaged.byDigest} starts beside ${current.packaged.byDigest}`);
      const isKept = next.engineKey !== undefined && next.engineKey === current.engineKey;
      const build = await this.#open({
        slot,
        current,
        next,
        earlier: opened.length,
        kept: isKept ? running : undefined,
      });
      if (typeof build !== "string") {
        opened.push(build);
        continue;
      }
      log.error(`${next.name} keeps ${current.packaged.byDigest}: ${build}`);
      await Promise.all(opened.map((each) => this.#close(each)));
      return { failed: `${next.packaged.byDigest} cannot be served: ${build}` };
    }
    for (const each of opened) await this.#switch(each);
    return { switched: opened.map(({ model }) => model.packaged.byDigest) };
  }

  /**
   * Opens a build beside the build that answers.
   * @param options.earlier number of builds that this reload has opened before
   * @param options.kept the engine process of the current build, if it runs the new build, too
   * @returns why the build cannot start, or the open build
   */
  async #open({ slot, current, next, earlier, kept }: OpenOptions): Promise<string | OpenedBuild> {
    const { fronts, engineOf } = this.#options;
    const number = Math.max(...this.#models.map((model) => model.number)) + 1 + earlier;
    const { packaged, config, engineKey } = next;
    const model: FrontsModel = { ...current, packaged, config, engineKey, number, isPreloaded: true };
    const events = fronts.addEngine(number, slot);
    const engine = kept?.engine ?? engineOf(model, events);
    const build: OpenedBuild = { slot, model, engine, fronts: events };
    if (kept !== undefined) engine.share(events);
    const starting =
      kept !== undefined
        ? undefined
        : engine.start().then(
            () => undefined,
            (error: unknown) => {
              events.failed(messageOf(error));
              return messageOf(error);
            },
          );
    const failures = await Promise.all([starting, fronts.openBuild(slot, model)]);
    const failed = failures.find((each) => each !== undefined);
    if (failed === undefined) return build;
    await this.#close(build);
    return failed;
  }

  async #close({ model, engine, fronts: events }: OpenedBuild): Promise<void> {
    const { fronts } = this.#options;
    await fronts.closeBuild(model.name);
    await engine.leave(events);
    fronts.removeEngine(model.number);
  }

  /** Gives new predictions to an open build. The earlier build ends later, with its last prediction. */
  async #switch({ slot, model, engine, fronts: events }: OpenedBuild): Promise<void> {
    const { fronts, loads, log } = this.#options;
    const current = this.#models[slot];
    const earlier = this.#running[slot];
    loads.replace(slot, engine, events);
    this.#models[slot] = model;
    this.#running[slot] = { engine, fronts: events };
    await fronts.switchBuild(slot, model);
    log.info(`${model.name}: ${model.packaged.byDigest} answers now`);
    void fronts.earlierEnded(model.name).then(async () => {
      if (current === undefined || earlier === undefined) return;
      await earlier.engine.leave(earlier.fronts);
      fronts.removeEngine(current.number);
      log.info(`${model.name}: ${current.packaged.byDigest} has finished`);
    });
  }
}
