/** Starts, instructs and stops the fronts of a server, in the supervisor. */

import { z } from "zod";
import { log } from "../base/log.ts";
import { freePort, localUrl } from "../machine/network/listener.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import { type HookCall, HookCell } from "../pipeline/hooks.ts";
import type { ServeConfig } from "./config.ts";
import { adminListening } from "./front-port.ts";
import { counterNames, type FromFront, type FrontStart, fromFront, opening, type ToFront } from "./messages.ts";
import { slots } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { ModelTable } from "./model-table.ts";

/** A load or unload of a model, or a reload. */
export type FrontRequest = Exclude<FromFront, { readonly done: true }>;

export interface FrontsOptions {
  readonly table: ModelTable;
  readonly config: ServeConfig;
  readonly folder: RunFolder;
  /** Number of fronts. */
  readonly count: number;
  readonly port: number;
  /** Number of models. */
  readonly models: number;
  /** Name of the server in the stores of predictions. */
  readonly server: string;
  /** Called with each request of a front. The result is the answer. */
  readonly onRequest: (request: FrontRequest) => unknown;
}

/** No time limit in practice, in milliseconds, for processes that stop. A second signal ends all processes at once. */
const FOREVER_MS = 2 ** 31 - 1;

/** Maximum inputs on the list of inputs that blocked a front. A hook is not called again for a listed input. */
const MAX_GUILTY = 1000;

export class Fronts {
  readonly url: URL;
  readonly adminUrl: URL | undefined;
  /** The file with the counters of each model, and the row of the supervisor in it. */
  readonly counts: readonly { readonly path: string; readonly metrics: Metrics }[];
  readonly #table: ModelTable;
  readonly #fronts: readonly Supervised[];
  readonly #working: Set<Supervised>;
  readonly #onRequest: FrontsOptions["onRequest"];

  /** Creates the files that the fronts share, but starts no process. @throws SconceError `address_in_use` for the admin port */
  constructor({ table, config, folder, count, port, models, server, onRequest }: FrontsOptions) {
    this.#table = table;
    this.#onRequest = onRequest;
    const { hasClaim } = table;
    // Counters of metrics are never cleared, so that they include the counts of killed processes.
    const createCounts = (name: string) => {
      const path = folder.join(name);
      // The last row belongs to the supervisor.
      const row = SharedCounters.create({ path, names: slots, rows: count + 1 }).row(count);
      return { path, metrics: new Metrics([row]) };
    };
    this.counts = Array.from({ length: models }, (_, model) => createCounts(`counts-${model}`));
    const { path: counts } = createCounts("counts");
    const counters = folder.join("counters");
    const shared = SharedCounters.create({ path: counters, names: counterNames, rows: count });
    const sockets = Array.from({ length: count }, (_, index) => folder.join(`front-${index}.sock`));
    const hasTls = config.tlsCert !== undefined;
    this.url = localUrl(config.host, port, hasTls);
    const admin = adminListening(config);
    // The server that --take-over replaces still listens on the same admin port.
    const adminPort = admin && (hasClaim || admin.port === 0 ? freePort(admin) : admin.port);
    this.adminUrl = admin && adminPort !== undefined ? localUrl(admin.host, adminPort, hasTls) : undefined;
    const guilty: HookCall[] = [];
    this.#fronts = sockets.map((_, index) => {
      const name = `front process ${index + 1}`;
      let starts = 0;
      let wasReady = false;
      let isCauseKnown = false;
      const hookCell = folder.join(`hook-${index}`);
      const cell = HookCell.create(hookCell);
      const front = new Supervised({
        role: "front",
        title: String(index + 1),
        name,
        start: (): FrontStart => ({
          config,
          port,
          adminPort,
          count,
          sockets,
          counters,
          counts,
          snapshot: table.snapshot(),
          server,
          index,
          listensLate: !hasClaim || (starts++ > 0 && count > 1),
          wasReady,
          hookCell,
          guilty,
          isCauseKnown,
        }),
        // If a hook blocks its front for longer, the watchdog ends the process.
        stuckAfterMs: 1000 * config.hookTimeout,
        onReady: () => {
          wasReady = true;
        },
        onMessage: (message) => this.#onMessage(front, fromFront.parse(message)),
        onEnd: (_reason, cause) => {
          const held = cause === "stuck" ? cell.running : undefined;
          isCauseKnown = held !== undefined;
          if (held !== undefined) {
            const { hook, index: input, predictionId } = held;
            log.error(`The ${name} was blocked by ${hook} of input ${input} of the prediction ${predictionId}`);
            guilty.push(held);
            if (guilty.length > MAX_GUILTY) guilty.shift();
          }
          cell.end();
          shared.clear(index);
        },
      });
      return front;
    });
    this.#working = new Set(this.#fronts);
  }

  /** Starts the fronts. Resolves when all accept predictions of all models that the server loads at its start. */
  async start(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.start()));
  }

  /**
   * Sends the table to the fronts. Resolves when they have applied it.
   * @returns the numbers of the draining builds that a front still needs
   */
  async publish(): Promise<ReadonlySet<number>> {
    const answers = await this.#ask({ snapshot: this.#table.snapshot() });
    return new Set(answers.flatMap((answer) => needed.parse(answer)));
  }

  /** Milliseconds since any front had an unfinished prediction of the build; 0 while one has. */
  async idleMs(number: number): Promise<number> {
    const answers = await this.#ask({ idle: number });
    return Math.min(...answers.map((idleMs) => (typeof idleMs === "number" ? idleMs : Infinity)));
  }

  /** Waits until each front has opened the `next` build. @returns why some front could not; undefined if all could */
  async opened(number: number): Promise<string | undefined> {
    for (const answer of await this.#ask({ opened: number })) {
      if (answer === undefined) return "a front process is starting again; try again then";
      const { failed } = opening.parse(answer);
      if (failed !== undefined) return failed;
    }
    return undefined;
  }

  /** Resolves when the `earlier` build has ended its predictions in each front. */
  async ended(number: number): Promise<void> {
    await this.#ask({ ended: number });
  }

  /** @returns the answer of each front; undefined for a front that does not run, or ends before it answers */
  #ask(question: ToFront): Promise<unknown[]> {
    return Promise.all(this.#fronts.map((front) => front.ask(question)));
  }

  #onMessage(front: Supervised, message: FromFront): unknown {
    if (!("done" in message)) return this.#onRequest(message);
    this.#onDone(front);
    return undefined;
  }

  async stop(): Promise<void> {
    const stopped = async (front: Supervised) => {
      await front.stop(FOREVER_MS);
      this.#onDone(front);
    };
    await Promise.all(this.#fronts.map(stopped));
  }

  /** Kills the fronts, without finishing their predictions. */
  async end(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.stop(0)));
  }

  /**
   * Records that a front has finished its work. All close the port only after the last one, because clients
   * read predictions of any process there.
   */
  #onDone(front: Supervised): void {
    this.#working.delete(front);
    if (this.#working.size > 0) return;
    this.#table.isDone = true;
    void this.publish();
  }
}

/** Answer of a front to a snapshot; undefined for a front that does not run. */
const needed = z.array(z.int()).default([]);
