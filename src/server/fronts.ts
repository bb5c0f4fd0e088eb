/** Starts, instructs and stops the HTTP processes (fronts) of a server, in their parent process. */

import { log } from "../base/log.ts";
import { freePort, localUrl } from "../http/listener.ts";
import type { Reload } from "../http/server-control.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import { type HookCall, HookCell } from "../pipeline/hook-cell.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineMove } from "./engine-link.ts";
import type { Front } from "./front.ts";
import { shareFiles } from "./front-files.ts";
import { adminListening } from "./front-port.ts";
import type { FrontStart } from "./front-process.ts";
import {
  allDone,
  type BuildQuestion,
  type ClaimNews,
  type FromFront,
  type FrontModelStart,
  fromFront,
  opening,
} from "./messages.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { ServedOptions } from "./model-engine.ts";
import { ModelFronts } from "./model-fronts.ts";
import { heldAfterMs } from "./serve-limits.ts";

export interface FrontsModel extends ServedOptions {
  /** Number of the build in the server. */
  readonly number: number;
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
  readonly port: number;
  /** Name of the server in the stores of predictions. */
  readonly server: string;
  /** Whether no other server runs predictions of the stores. */
  readonly hasClaim: boolean;
}

/** No time limit in practice, in milliseconds, for processes that stop. A second signal ends all processes at once. */
const FOREVER_MS = 2 ** 31 - 1;

/** Most inputs that fail without another call, because they blocked a front. */
const MAX_GUILTY = 1000;

export class Fronts implements Front {
  readonly url: URL;
  readonly adminUrl: URL | undefined;
  readonly #fronts: readonly Supervised[];
  readonly #working: Set<Supervised>;
  readonly #done = Promise.withResolvers<void>();
  /** The builds that answer, in the order of the models. */
  readonly #models: FrontsModel[];
  readonly #files: ReturnType<typeof shareFiles>;
  /** News of the engine processes, by number of the build. */
  readonly #engines = new Map<number, ModelFronts>();
  #hasClaim: boolean;
  /** Called when an HTTP process needs the engine of a build, or when a client asks to load or unload it. */
  onMove: (number: number, move: EngineMove) => void = () => {};

  /** Called when a client asks for a reload. */
  onReload: () => Promise<Reload> = async () => ({ refused: "the server is not ready" });

  /** Creates the shared files, but starts no process. @throws SconceError `address_in_use` for the admin port */
  constructor({ models, config, argv, folder, count, port, server, hasClaim }: FrontsOptions) {
    this.#models = [...models];
    this.#hasClaim = hasClaim;
    const hasTls = config.tlsCert !== undefined;
    this.url = localUrl(config.host, port, hasTls);
    const admin = adminListening(config);
    // The server that --take-over replaces still listens on the same admin port.
    const adminPort = admin && (hasClaim || admin.port === 0 ? freePort(admin) : admin.port);
    this.adminUrl = admin && adminPort !== undefined ? localUrl(admin.host, adminPort, hasTls) : undefined;
    this.#files = shareFiles({ config, folder, count, port, models: models.length });
    const { start, counters, keyCounts } = this.#files;
    const guilty: HookCall[] = [];
    this.#fronts = start.sockets.map((_, index) => {
      let starts = 0;
      let wasReady = false;
      let isCauseKnown = false;
      const hookCell = folder.join(`hook-${index}`);
      const cell = HookCell.create(hookCell);
      const front = new Supervised({
        role: "front",
        name: count === 1 ? "front process" : `front process ${index + 1}`,
        start: (): FrontStart => {
          // Repeats the news about engines after this function: before, no process exists, and messages are dropped.
          queueMicrotask(() => {
            for (const each of this.#engines.values()) each.repeat(front);
          });
          return {
            ...start,
            adminPort,
            argv: [...argv],
            models: this.#models.map((model, i) => this.#startOf(model, i)),
            server,
            hasClaim: this.#hasClaim,
            index,
            listensLate: !hasClaim || (starts++ > 0 && count > 1),
            wasReady,
            hookCell,
            guilty,
            isCauseKnown,
          };
        },
        batchTimeoutMs: heldAfterMs(config),
        onReady: () => {
          wasReady = true;
        },
        onMessage: (message) => this.#onMessage(front, fromFront.parse(message)),
        onEnd: (_reason, cause) => {
          const held = cause === "stuck" ? cell.running : undefined;
          isCauseKnown = held !== undefined;
          if (held !== undefined) {
            const { hook, index: input, predictionId } = held;
            log.error(`The front process was blocked by ${hook} of input ${input} of the prediction ${predictionId}`);
            guilty.push(held);
            if (guilty.length > MAX_GUILTY) guilty.shift();
          }
          cell.end();
          counters.clear(index);
          keyCounts?.clear(index);
        },
      });
      return front;
    });
    this.#working = new Set(this.#fronts);
    for (const [slot, { number }] of models.entries()) this.addEngine(number, slot);
  }

  #startOf(model: FrontsModel, i: number): FrontModelStart {
    const { name, number, packaged, config, store, isPreloaded, storeFault } = model;
    return {
      name,
      number,
      tag: packaged.tag,
      reference: packaged.byDigest,
      home: packaged.home,
      config,
      store,
      counts: this.#files.counts[i] ?? "",
      isPreloaded,
      storeFault,
    };
  }

  /**
   * Starts the HTTP processes. Resolves when all accept predictions, for which models that are loaded at the start must
   * be loaded first.
   */
  async start(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.start()));
  }

  /** Adds the news of the engine process of a build. @param slot index of its model */
  addEngine(number: number, slot: number): ModelFronts {
    const row = this.#files.supervisorCounts[slot];
    const engine = new ModelFronts({ model: number, fronts: this.#fronts, metrics: row && new Metrics([row]) });
    this.#engines.set(number, engine);
    return engine;
  }

  removeEngine(number: number): void {
    this.#engines.delete(number);
  }

  /** Opens a build beside the build of the same name that answers. @returns why it cannot be opened in some process */
  async openBuild(slot: number, model: FrontsModel): Promise<string | undefined> {
    const { socket } = this.ofBuild(model.number);
    const question = { open: { ...this.#startOf(model, slot), socket } } satisfies BuildQuestion;
    const answers = await Promise.all(this.#fronts.map((front) => front.ask(question)));
    for (const answer of answers) {
      if (answer === undefined) return "a front process is starting again; try again then";
      const { failed } = opening.parse(answer);
      if (failed !== undefined) return failed;
    }
    return undefined;
  }

  async closeBuild(name: string): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.ask({ close: name } satisfies BuildQuestion)));
  }

  /** Gives new predictions to an opened build. Resolves when requests reach it. */
  async switchBuild(slot: number, model: FrontsModel): Promise<void> {
    // A process that starts from now on opens the new build.
    this.#models[slot] = model;
    const question = { switchTo: this.#startOf(model, slot) } satisfies BuildQuestion;
    await Promise.all(this.#fronts.map((front) => front.ask(question)));
  }

  /** Resolves when the build that had a name before has ended its predictions. */
  async earlierEnded(name: string): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.ask({ earlierOf: name } satisfies BuildQuestion)));
  }

  /** The server that --take-over replaces has ended: its unfinished predictions run here. */
  claim(): void {
    this.#hasClaim = true;
    for (const front of this.#fronts) front.send({ claim: true } satisfies ClaimNews);
  }

  #onMessage(front: Supervised, message: FromFront): Promise<Reload> | undefined {
    if ("reload" in message) return this.onReload();
    if ("done" in message) this.#onDone(front);
    else this.onMove(message.model, message.move);
    return undefined;
  }

  /** The HTTP processes of a build, which get the events of its engine process. */
  ofBuild(number: number): ModelFronts {
    const fronts = this.#engines.get(number);
    if (fronts === undefined) throw new RangeError(`the server has no build ${number}`);
    return fronts;
  }

  async stop(): Promise<void> {
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
