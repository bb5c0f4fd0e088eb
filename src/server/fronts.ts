/** Starts, instructs and stops the HTTP processes (fronts) of a server, in their parent process. */

import { log } from "../base/log.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineMove } from "./engine-link.ts";
import { type HookCall, HookCell } from "./flow/hook-cell.ts";
import type { Front } from "./front.ts";
import { shareFiles } from "./front-files.ts";
import { adminListening } from "./front-port.ts";
import type { FrontStart } from "./front-process.ts";
import { freePort, localUrl } from "./http/listener.ts";
import {
  allDone,
  type FromFront,
  fromFront,
  type Relative,
  type RelativesNews,
  type UpgradeNews,
  type UpgradeQuestion,
} from "./messages.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { ServedOptions } from "./model-engine.ts";
import { ModelFronts } from "./model-fronts.ts";
import type { OlderServer, UpgradedFronts } from "./older-server.ts";
import { heldAfterMs } from "./serve-limits.ts";
import type { Reload } from "./server-control.ts";

export interface FrontsModel extends ServedOptions {
  /** Path of the database of predictions; undefined for predictions in memory. */
  readonly store: string | undefined;
  readonly isPreloaded?: boolean;
  readonly storeFault?: string | undefined;
}

export interface FrontsOptions {
  readonly models: readonly FrontsModel[];
  readonly config: ServeConfig;
  readonly argv: readonly string[];
  readonly folder: RunFolder;
  readonly count: number;
  readonly relatives: RelativesNews;
  /** Name of the server in the stores of predictions. */
  readonly server: string;
  /** The server from which this server takes over the port; undefined without an upgrade. */
  readonly older?: Pick<OlderServer, "relative" | "portSockets"> | undefined;
  /**
   * Reference of an earlier build. The HTTP processes then open no port, and only finish the predictions of this build.
   */
  readonly onlyBuild?: string | undefined;
}

/** No time limit in practice, in milliseconds, for processes that stop. A second signal ends all processes at once. */
export const FOREVER_MS = 2 ** 31 - 1;

/** Most inputs that fail without another call, because they blocked a front. */
const MAX_GUILTY = 1000;

export class Fronts implements Front, UpgradedFronts {
  readonly url: URL;
  readonly adminUrl: URL | undefined;
  readonly #fronts: readonly Supervised[];
  readonly #working: Set<Supervised>;
  readonly #done = Promise.withResolvers<void>();
  readonly sockets: readonly string[];
  readonly socketsPerFront: number;
  readonly #prepared = Promise.withResolvers<void>();
  /** During an upgrade, the HTTP processes that are ready to open the port. */
  readonly #ready = new Set<Supervised>();
  /** Whether the HTTP processes wait for a `listen` message before they open the port. */
  #waitsToListen: boolean;
  #isRetiring = false;
  isStopping = false;
  #other: Relative | undefined;
  #relatives: RelativesNews;
  readonly #models: readonly ModelFronts[];
  /** Called when an HTTP process needs the engine of a model, or when a client asks to load or unload it. */
  onMove: (model: number, move: EngineMove) => void = () => {};

  /** Called when a client asks for an upgrade to a newer server. */
  onReload: (waitMs: number) => Promise<Reload> = async () => ({ refused: "the server is not ready" });

  /** Chooses the port and creates the shared files, but starts no process. @throws SconceError `address_in_use` */
  constructor({ models, config, argv, folder, count, relatives, server, older, onlyBuild }: FrontsOptions) {
    this.#relatives = relatives;
    this.#other = older?.relative;
    // To steer connections away from the older server's sockets, a newer server needs at least as many sockets.
    this.socketsPerFront = Math.ceil(Math.max(1, (older?.portSockets ?? 0) / count));
    this.#waitsToListen = older !== undefined;
    const opensPort = older === undefined && onlyBuild === undefined;
    const port = opensPort ? freePort(config) : config.port;
    const hasTls = config.tlsCert !== undefined;
    this.url = localUrl(config.host, port, hasTls);
    const admin = adminListening(config);
    const adminPort = admin && (older === undefined || admin.port === 0 ? freePort(admin) : admin.port);
    this.adminUrl = adminPort === undefined ? undefined : localUrl(config.adminHost, adminPort, hasTls);
    const files = shareFiles({ config, folder, count, port, models: models.length });
    const { start, counts, counters, keyCounts } = files;
    this.sockets = start.sockets;
    const shared = {
      ...start,
      ...(onlyBuild !== undefined && { onlyBuild, unix: folder.join("port.sock") }),
      adminPort,
      portSockets: this.socketsPerFront,
      argv: [...argv],
      models: models.map(({ name, packaged, config: own, split, isShadow, store, isPreloaded, storeFault }, i) => ({
        name,
        tag: packaged.tag,
        reference: packaged.byDigest,
        home: packaged.home,
        config: own,
        split,
        isShadow,
        store,
        counts: counts[i] ?? "",
        isPreloaded,
        storeFault,
      })),
    };
    const guilty: HookCall[] = [];
    this.#fronts = start.sockets.map((_, index) => {
      let starts = 0;
      let wasReady = false;
      let blocked: FrontStart["blocked"];
      const hookCell = folder.join(`hook-${index}`);
      const cell = HookCell.create(hookCell);
      const front = new Supervised({
        role: "front",
        name: nameOf(index, { count, onlyBuild }),
        start: (): FrontStart => {
          // Repeats the news about engines after this function: before, no process exists, and messages are dropped.
          queueMicrotask(() => {
            for (const each of this.#models) each.repeat(front);
          });
          return {
            ...shared,
            server,
            relatives: this.#news,
            index,
            isRestart: starts++ > 0 && count > 1,
            wasReady,
            waitsToListen: this.#waitsToListen,
            isRetiring: this.#isRetiring,
            hookCell,
            guilty,
            blocked,
          };
        },
        batchTimeoutMs: heldAfterMs(config),
        onReady: () => {
          wasReady = true;
        },
        onMessage: (message) => this.#onMessage(front, fromFront.parse(message)),
        onEnd: (_reason, cause) => {
          const held = cause === "stuck" ? cell.blocking : undefined;
          blocked = cause !== "stuck" ? undefined : held === undefined ? "by unknown" : "by guilty";
          if (held !== undefined) {
            const { hook, index: input, predictionId } = held;
            log.error(`The front process was blocked by ${hook} of input ${input} of the prediction ${predictionId}`);
            guilty.push(held);
            if (guilty.length > MAX_GUILTY) guilty.shift();
          }
          cell.clear();
          this.#ready.delete(front);
          counters.clear(index);
          keyCounts?.clear(index);
        },
      });
      return front;
    });
    this.#working = new Set(this.#fronts);
    this.#models = files.supervisorCounts.map(
      (row, model) => new ModelFronts({ model, fronts: this.#fronts, metrics: new Metrics([row]) }),
    );
  }

  /**
   * Starts the HTTP processes. Resolves when all accept predictions, for which models that are loaded at the start must
   * be loaded first.
   */
  async start(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.start()));
  }

  /** During an upgrade, resolves when all HTTP processes are ready to open the port. */
  get prepared(): Promise<void> {
    return this.#prepared.promise;
  }

  /** Resolves when all HTTP processes have finished their work, or have stopped. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  listen(): void {
    this.#waitsToListen = false;
    this.#sendAll({ listen: true });
  }

  changeRelatives(news: RelativesNews): void {
    this.#relatives = news;
    this.#sendAll(this.#news);
  }

  setOther(other: Relative | undefined): void {
    this.#other = other;
    this.#sendAll(this.#news);
  }

  retire(isRetiring: boolean): void {
    this.#isRetiring = isRetiring;
    this.#sendAll({ retire: isRetiring });
  }

  async steer(sockets: { readonly first: number; readonly count: number }): Promise<boolean> {
    // Any HTTP process can steer all sockets of the port. A process that has just died does not answer.
    for (const front of this.#fronts) {
      if ((await front.ask({ steer: sockets } satisfies UpgradeQuestion)) === true) return true;
    }
    return false;
  }

  async closePorts(onClosed: (open: number) => Promise<void>): Promise<void> {
    const { length } = this.#fronts;
    // Reports all ports as open before the first one closes, so that the newer server can prepare.
    if (length > 1) await onClosed(length);
    for (const [open, front] of [...this.#fronts.entries()].reverse()) {
      await front.ask({ closePort: true } satisfies UpgradeQuestion);
      await onClosed(open);
    }
  }

  get #news(): RelativesNews {
    const { relatives, unavailable } = this.#relatives;
    // The other server of an upgrade is first: requests with a new id go there, since earlier builds create no
    // predictions.
    return { relatives: this.#other === undefined ? relatives : [this.#other, ...relatives], unavailable };
  }

  #sendAll(message: RelativesNews | UpgradeNews): void {
    for (const front of this.#fronts) front.send(message);
  }

  #onMessage(front: Supervised, message: FromFront): Promise<Reload> | undefined {
    if ("reloadMs" in message) return this.onReload(message.reloadMs);
    if ("done" in message) this.#onDone(front);
    else if ("move" in message) this.onMove(message.model, message.move);
    else if (this.#ready.add(front).size === this.#fronts.length) this.#prepared.resolve();
    return undefined;
  }

  /** The HTTP processes of a model, which get the events of its engine process. */
  ofModel(model: number): ModelFronts {
    const fronts = this.#models[model];
    if (fronts === undefined) throw new RangeError(`the server has no model ${model}`);
    return fronts;
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    const stopped = async (front: Supervised) => {
      await front.stop(FOREVER_MS);
      this.#onDone(front);
    };
    await Promise.all(this.#fronts.map(stopped));
  }

  /** Kills the HTTP processes, without finishing their predictions. */
  async end(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.stop(0)));
  }

  /**
   * Records that an HTTP process has finished its work. All close the port only after the last one, because clients
   * read predictions of any process there.
   */
  #onDone(front: Supervised): void {
    this.#working.delete(front);
    if (this.#working.size > 0) return;
    this.#done.resolve();
    for (const each of this.#fronts) each.send(allDone);
  }
}

function nameOf(index: number, { count, onlyBuild }: Pick<FrontsOptions, "count" | "onlyBuild">): string {
  if (onlyBuild !== undefined) return `front process of ${onlyBuild}`;
  return count === 1 ? "front process" : `front process ${index + 1}`;
}
