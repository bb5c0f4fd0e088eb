/** Replaces the builds of a running server: a new build starts beside the old one, and then gets its name. */
import { messageOf } from "../base/errors.ts";
import type { Reload } from "../http/admin.ts";
import type { Fronts } from "./fronts.ts";
import type { Build, Loadable, ModelTable, ServedOptions } from "./model-table.ts";

export interface ReloadsOptions {
  readonly table: ModelTable;
  readonly fronts: Pick<Fronts, "publish" | "opened" | "ended">;
  /** Whether servers share a queue, so that a reload is refused. */
  readonly isQueued: boolean;
  /** Finds the builds that the references of the command line name now. */
  readonly resolveAgain: (() => Promise<readonly ServedOptions[]>) | undefined;
  /** Creates the engine process of a build. */
  readonly engineOf: (served: ServedOptions, slot: number) => Loadable;
  readonly log: ReloadLog;
}

/** Log of the builds that start, answer and end. */
export type ReloadLog = { readonly [L in "info" | "error"]: (text: string) => void };

export class Reloads {
  readonly #options: ReloadsOptions;
  #isReloading = false;

  constructor(options: ReloadsOptions) {
    this.#options = options;
  }

  /**
   * Replaces each build whose reference names another build now; if one cannot start, nothing changes. Resolves when
   * the new builds answer; the old ones then finish their predictions.
   */
  async reload(): Promise<Reload> {
    if (this.#isReloading) return { refused: "another reload is running; try again when it has ended" };
    if (this.#options.isQueued)
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
    const { resolveAgain, log, table } = this.#options;
    const found = (await resolveAgain?.()) ?? [];
    const { current } = table;
    const names = (models: readonly { readonly name: string }[]) => models.map(({ name }) => name).join(", ");
    if (names(found) !== names(current))
      return {
        refused: `the models to serve are ${names(found) || "none"} now, not ${names(current)}: restart the server`,
      };
    const opened: { readonly earlier: Build; readonly next: Build }[] = [];
    for (const earlier of current) {
      const served = found[earlier.options.slot];
      if (served === undefined || served.packaged.digest === earlier.packaged.digest) continue;
      const next = this.#add(earlier, served);
      log.info(`${next.label} starts beside ${earlier.label}`);
      opened.push({ earlier, next });
      const fault = await this.#open(next, next.engine === earlier.engine);
      if (fault === undefined) continue;
      log.error(`${earlier.label} goes on, because ${next.label} cannot be served: ${fault}`);
      await Promise.all(opened.map((each) => this.#remove(each.next)));
      return { failed: `${next.packaged.byDigest} cannot be served: ${fault}` };
    }
    for (const { earlier, next } of opened) await this.#switch(earlier, next);
    return { switched: opened.map(({ next }) => next.packaged.byDigest) };
  }

  /** Adds a build beside the build that answers. It keeps the engine process if this process runs it, too. */
  #add(earlier: Build, served: ServedOptions): Build {
    const { table, engineOf } = this.#options;
    const { slot, engine: running, served: before } = earlier.options;
    const isKept = served.engineKey !== undefined && served.engineKey === before.engineKey;
    const next = table.add({ ...earlier.options, served, engine: isKept ? running : engineOf(served, slot) }, "next");
    next.storeFault = earlier.storeFault;
    return next;
  }

  /** Opens a build in all fronts. @returns why it cannot start; undefined for an open build */
  async #open(next: Build, isRunning: boolean): Promise<string | undefined> {
    const { fronts } = this.#options;
    next.hasRoom = true;
    next.state = "loading";
    void fronts.publish();
    try {
      if (!isRunning) await next.engine.start();
      next.state = "ready";
      void fronts.publish();
      return await fronts.opened(next.number);
    } catch (error) {
      return messageOf(error);
    }
  }

  async #remove(build: Build): Promise<void> {
    const { table, fronts } = this.#options;
    await table.remove(build);
    await fronts.publish();
  }

  /** Gives new predictions to an open build. The earlier build ends later, with its last prediction. */
  async #switch(earlier: Build, next: Build): Promise<void> {
    const { fronts, log } = this.#options;
    earlier.stage = "earlier";
    next.stage = "current";
    await fronts.publish();
    log.info(`${next.label} answers now`);
    void fronts.ended(earlier.number).then(async () => {
      await this.#remove(earlier);
      log.info(`${earlier.label} has finished`);
    });
  }
}
