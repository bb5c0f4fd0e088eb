/** The front processes of a server, as their supervisor sees them. */

import type { RunFolder } from "../machine/processes/run-folder.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
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
  /** How long a front may give no answer. */
  readonly stuckAfterMs: number;
}

/** Makes what the fronts of one server share. */
export function meetingPlace({
  config,
  folder,
  count,
  port,
}: Pick<FrontsOptions, "config" | "folder" | "count"> & { readonly port: number }) {
  const [counters, counts] = [folder.join("counters"), folder.join("counts")];
  // Never cleared: what a front counted before it was killed goes on counting.
  SharedCounters.create({ path: counts, names: slots, rows: count });
  return {
    counters: SharedCounters.create({ path: counters, names: counterNames, rows: count }),
    start: {
      config,
      port,
      count,
      sockets: Array.from({ length: count }, (_, index) => folder.join(`front-${index}.sock`)),
      counters,
      counts,
    },
  };
}

/** Longer than a drain may take; a second signal ends all at once. */
export const FOREVER_MS = 2 ** 31 - 1;

export class Fronts implements Front, EngineEvents {
  readonly url: URL;
  readonly #fronts: readonly Supervised[];
  /** Those that have not told that they are done. */
  readonly #busy: Set<Supervised>;
  #engine: EngineNews | undefined;

  /** @throws SconceError `address_in_use` */
  constructor({ packaged, config, argv, folder, count, store, stuckAfterMs }: FrontsOptions) {
    const port = freePort(config);
    this.url = localUrl(config.host, port);
    const { start, counters } = meetingPlace({ config, folder, count, port });
    const shared = { ...start, argv: [...argv], reference: packaged.byDigest, store };
    this.#fronts = start.sockets.map((_, index) => {
      let starts = 0;
      let hasHeld = false;
      // With predictions in memory there is nothing to run again.
      const path = store === undefined ? undefined : RunningHooks.create(folder.join(`hooks-${index}`));
      const front = new Supervised({
        role: "front",
        name: count === 1 ? "front process" : `front process ${index + 1}`,
        start: (): FrontStart => {
          // Messages that a process gets before it asks for them wait.
          queueMicrotask(() => this.#tell(front));
          return {
            ...shared,
            index,
            isRestart: starts++ > 0 && count > 1,
            hooks: path === undefined ? undefined : { path, hasHeld },
          };
        },
        batchTimeoutMs: stuckAfterMs,
        onMessage: () => this.#isDone(front),
        onEnd: (_reason, isStuck) => {
          hasHeld = isStuck;
          counters.clear(index);
        },
      });
      return front;
    });
    this.#busy = new Set(this.#fronts);
  }

  /** Resolves when all of them take predictions, for which the engine process must be ready. */
  async start(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.start()));
  }

  ready(socket: string): void {
    this.#engine = { socket };
    for (const front of this.#fronts) this.#tell(front);
  }

  ended(reason: string): void {
    this.#engine = undefined;
    const news: EngineNews = { ended: reason };
    for (const front of this.#fronts) front.send(news);
  }

  /** Takes nothing new, finishes what was accepted, and closes. */
  async stop(): Promise<void> {
    const stopped = async (front: Supervised) => {
      await front.stop(FOREVER_MS);
      this.#isDone(front);
    };
    await Promise.all(this.#fronts.map(stopped));
  }

  /** Ends them without waiting for anything. */
  async end(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.stop(0)));
  }

  /** A port that is closed refuses those who come back for what others still work on: they are closed together. */
  #isDone(front: Supervised): void {
    this.#busy.delete(front);
    if (this.#busy.size > 0) return;
    for (const each of this.#fronts) each.send(allDone);
  }

  #tell(front: Supervised): void {
    if (this.#engine !== undefined) front.send(this.#engine);
  }
}
