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
   * Replaces each build whose reference names another build now. If one cannot start, its name and the later names keep
   * their builds. Resolves when the new builds answer; the old ones then finish their predictions.
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
    const switched: string[] = [];
    for (const [slot, next] of found.entries()) {
      const { packaged } = next;
      const current = this.#models[slot];
      if (current === undefined || current.packaged.digest === packaged.digest) continue;
      log.info(`${next.name}: ${packaged.byDigest} starts beside ${current.packaged.byDigest}`);
      const failed = await this.#replace(slot, current, next);
      if (failed !== undefined) {
        log.error(`${next.name} keeps ${current.packaged.byDigest}: ${failed}`);
        return { failed: `${packaged.byDigest} cannot be served: ${failed}` };
      }
      switched.push(packaged.byDigest);
    }
    return { switched };
  }

  /** Replaces a build. @returns why the new build cannot start; undefined once it answers */
  async #replace(slot: number, current: FrontsModel, { packaged, config }: ServedOptions): Promise<string | undefined> {
    const { fronts, loads, engineOf } = this.#options;
    const number = Math.max(...this.#models.map((model) => model.number)) + 1;
    const model: FrontsModel = { ...current, packaged, config, number, isPreloaded: true };
    const events = fronts.addEngine(number, slot);
    const engine = engineOf(model, events);
    const starting = engine.start().then(
      () => undefined,
      (error: unknown) => {
        events.failed(messageOf(error));
        return messageOf(error);
      },
    );
    const failures = await Promise.all([starting, fronts.openBuild(slot, model)]);
    const failed = failures.find((each) => each !== undefined);
    if (failed !== undefined) {
      await fronts.closeBuild(model.name);
      await engine.stop();
      fronts.removeEngine(number);
      return failed;
    }
    const earlier = loads.replace(slot, engine, events);
    this.#models[slot] = model;
    await fronts.switchBuild(slot, model);
    log.info(`${model.name}: ${packaged.byDigest} answers now`);
    void fronts.earlierEnded(model.name).then(async () => {
      await earlier?.stop();
      fronts.removeEngine(current.number);
      log.info(`${model.name}: ${current.packaged.byDigest} has finished`);
    });
    return undefined;
  }
}
