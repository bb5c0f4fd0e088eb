/** The front processes of a server, in their supervisor. */

import type { RunFolder } from "../machine/processes/run-folder.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import { keyNumbers } from "./access/api-keys.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineEvents } from "./engine-link.ts";
import { RunningHooks } from "./flow/running-hooks.ts";
import type { Front } from "./front.ts";
import type { FrontStart } from "./front-process.ts";
import { freePort, localUrl } from "./http/listener.ts";
import { allDone, counterNames, type EngineNews } from "./messages.ts";
import { slots } from "./metrics/counts.ts";

export interface FrontsOptions {
  readonly packaged: PackagedModel;
  readonly config: ServeConfig;
  readonly argv: readonly string[];
  readonly folder: RunFolder;
  readonly count: number;
  /** The database of predictions. */
  readonly store: string | undefined;
  /** How long a front may stay unresponsive. */
  readonly stuckAfterMs: number;
}

/** Creates the files that all fronts of a server share. */
export function shareFiles({
  config,
  folder,
  count,
  port,
}: Pick<FrontsOptions, "config" | "folder" | "count"> & { readonly port: number }) {
  const [counters, counts] = [folder.join("counters"), folder.join("counts")];
  // Never cleared: the metrics include the counts of killed fronts.
  SharedCounters.create({ path: counts, names: slots, rows: count });
  const keys = config.apiKeys === undefined ? undefined : folder.join("keys");
  return {
    counters: SharedCounters.create({ path: counters, names: counterNames, rows: count }),
    keyCounts: keys === undefined ? undefined : SharedCounters.create({ path: keys, names: keyNumbers, rows: count }),
    start: {
      config,
      port,
      count,
      sockets: Array.from({ length: count }, (_, index) => folder.join(`front-${index}.sock`)),
      counters,
      counts,
      keys,
    },
  };
}

/** Longer than any drain. A second signal ends all processes at once. */
export const FOREVER_MS = 2 ** 31 - 1;

export class Fronts implements Front, EngineEvents {
  readonly url: URL;
  readonly #fronts: readonly Supervised[];
  readonly #working: Set<Supervised>;
  #engine: EngineNews | undefined;

  /** @throws SconceError `address_in_use` */
  constructor({ packaged, config, argv, folder, count, store, stuckAfterMs }: FrontsOptions) {
    const port = freePort(config);
    this.url = localUrl(config.host, port, config.tlsCert !== undefined);
    const { start, counters, keyCounts } = shareFiles({ config, folder, count, port });
    const shared = { ...start, argv: [...argv], reference: packaged.byDigest, store };
    this.#fronts = start.sockets.map((_, index) => {
      let starts = 0;
      let hasHeld = false;
      // Predictions in memory end with the process, so a blocking hook does not run again.
      const path = store === undefined ? undefined : RunningHooks.create(folder.join(`hooks-${index}`));
      const front = new Supervised({
        role: "front",
        name: count === 1 ? "front process" : `front process ${index + 1}`,
        start: (): FrontStart => {
          // The process buffers messages until it has a handler.
          queueMicrotask(() => this.#sendEngine(front));
          return {
            ...shared,
            index,
            isRestart: starts++ > 0 && count > 1,
            hooks: path === undefined ? undefined : { path, hasHeld },
          };
        },
        batchTimeoutMs: stuckAfterMs,
        onMessage: () => this.#onDone(front),
        onEnd: (_reason, isStuck) => {
          hasHeld = isStuck;
          counters.clear(index);
          keyCounts?.clear(index);
        },
      });
      return front;
    });
    this.#working = new Set(this.#fronts);
  }

  /** Resolves when all fronts accept predictions, which needs a ready engine process. */
  async start(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.start()));
  }

  ready(socket: string): void {
    this.#engine = { socket };
    for (const front of this.#fronts) this.#sendEngine(front);
  }

  ended(reason: string): void {
    this.#engine = undefined;
    const news: EngineNews = { ended: reason };
    for (const front of this.#fronts) front.send(news);
  }

  silent(isSilent: boolean): void {
    for (const front of this.#fronts) front.send({ isSilent } satisfies EngineNews);
  }

  /** Refuses new work, finishes accepted work, and closes. */
  async stop(): Promise<void> {
    const stopped = async (front: Supervised) => {
      await front.stop(FOREVER_MS);
      this.#onDone(front);
    };
    await Promise.all(this.#fronts.map(stopped));
  }

  /** Kills the fronts without a drain. */
  async end(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.stop(0)));
  }

  /** All fronts close the port together: clients still read predictions of the other fronts at it. */
  #onDone(front: Supervised): void {
    this.#working.delete(front);
    if (this.#working.size > 0) return;
    for (const each of this.#fronts) each.send(allDone);
  }

  #sendEngine(front: Supervised): void {
    if (this.#engine !== undefined) front.send(this.#engine);
  }
}
