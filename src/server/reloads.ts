/** Replaces the builds of a running server: a new build starts beside the old one, and then gets its name. */
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { EngineLoads } from "./engine-loads.ts";
import type { Fronts, FrontsModel } from "./fronts.ts";
import type { ModelEngine, ServedOptions } from "./model-engine.ts";
import type { ModelFronts } from "./model-fronts.ts";
import type { Reload } from "./server-control.ts";

export interface ReloadsOptions {
  readonly models: readonly FrontsModel[];
  readonly fronts: Fronts;
  readonly loads: EngineLoads;
  /** Finds the builds that the references of the command line name now. */
  readonly resolveAgain: (() => Promise<readonly ServedOptions[]>) | undefined;
  readonly engineOf: (model: FrontsModel, events: ModelFronts) => ModelEngine;
}

/** A build that is open in all HTTP processes, and answers no requests yet. */
interface OpenedBuild {
  readonly slot: number;
  readonly model: FrontsModel;
  readonly events: ModelFronts;
  readonly engine: ModelEngine;
}

export class Reloads {
  readonly #options: ReloadsOptions;
  /** The builds that answer, in the order of the models. */
  readonly #models: FrontsModel[];
  #isReloading = false;

  constructor(options: ReloadsOptions) {
    this.#options = options;
    this.#models = [...options.models];
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
    const found = (await this.#options.resolveAgain?.()) ?? [];
    const names = (models: readonly { readonly name: string }[]) => models.map(({ name }) => name).join(", ");
    if (names(found) !== names(this.#models))
      return {
        refused: `the models to serve are ${names(found) || "none"} now, not ${names(this.#models)}: restart the server`,
      };
    const opened: OpenedBuild[] = [];
    for (const [slot, next] of found.entries()) {
      const current = this.#models[slot];
      if (current === undefined || current.packaged.digest === next.packaged.digest) continue;
      log.info(`${next.name}: ${next.packaged.byDigest} starts beside ${current.packaged.byDigest}`);
      const build = await this.#open(slot, current, next, opened.length);
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
   * @param earlier number of builds that this reload has opened before
   * @returns why the build cannot start, or the open build
   */
  async #open(
    slot: number,
    current: FrontsModel,
    { packaged, config }: ServedOptions,
    earlier: number,
  ): Promise<string | OpenedBuild> {
    const { fronts, engineOf } = this.#options;
    const number = Math.max(...this.#models.map((model) => model.number)) + 1 + earlier;
    const model: FrontsModel = { ...current, packaged, config, number, isPreloaded: true };
    const events = fronts.addEngine(number, slot);
    const build = { slot, model, events, engine: engineOf(model, events) };
    const starting = build.engine.start().then(
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

  async #close({ model, engine }: OpenedBuild): Promise<void> {
    const { fronts } = this.#options;
    await fronts.closeBuild(model.name);
    await engine.stop();
    fronts.removeEngine(model.number);
  }

  /** Gives new predictions to an open build. The earlier build ends later, with its last prediction. */
  async #switch({ slot, model, events, engine }: OpenedBuild): Promise<void> {
    const { fronts, loads } = this.#options;
    const current = this.#models[slot];
    const earlier = loads.replace(slot, engine, events);
    this.#models[slot] = model;
    await fronts.switchBuild(slot, model);
    log.info(`${model.name}: ${model.packaged.byDigest} answers now`);
    void fronts.earlierEnded(model.name).then(async () => {
      await earlier?.stop();
      if (current === undefined) return;
      fronts.removeEngine(current.number);
      log.info(`${model.name}: ${current.packaged.byDigest} has finished`);
    });
  }
}
