/** Starts and stops the engine process of one model, in the parent process. */
import { rmSync } from "node:fs";
import { libtorchEnv } from "../engine/libtorch-env.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { Stamps } from "../package/store/verification.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineEvents } from "./engine-link.ts";
import type { EngineStart } from "./engine-process.ts";
import { stuckAfterMs } from "./serve-limits.ts";

/** A model, and the options with which a server serves it. */
export interface ServedOptions {
  /** Name in paths and metrics. */
  readonly name: string;
  readonly packaged: PackagedModel;
  /** Options of the server, overridden by the model's own options. */
  readonly config: ServeConfig;
  /** Hash of all that the engine process loads: a reload keeps the process if it is equal. Undefined: never equal. */
  readonly engineKey?: string | undefined;
}

export interface ModelEngineOptions extends ServedOptions {
  /** The command line with which the child process finds the model and its libraries. */
  readonly argv: readonly string[];
  readonly source: Pick<ModelSource, "verify" | "unpackLibraries"> | undefined;
  readonly folder: RunFolder;
  readonly events: EngineEvents;
  /** Prefix for names of the process's sockets. Each engine of a server has another prefix. */
  readonly socketName: string;
  /** Whether the server has other models, so that log lines must name the model. */
  readonly isOneOfSeveral?: boolean;
}

/** Milliseconds that the engine process may take to exit. */
const STOP_MS = 5000;

export class ModelEngine {
  readonly #options: ModelEngineOptions;
  #process: Supervised | undefined;
  #starts = 0;
  #socket = "";
  #verified: Stamps | undefined;
  #isReady = false;
  readonly #events: Set<EngineEvents>;

  constructor(options: ModelEngineOptions) {
    this.#options = options;
    this.#events = new Set([options.events]);
  }

  /** Runs the batches of another build, too, whose weights and code for this process are equal. */
  share(events: EngineEvents): void {
    this.#events.add(events);
    if (this.#isReady) events.ready(this.#socket);
  }

  /** A build has ended. Stops the process after its last build. */
  async leave(events: EngineEvents): Promise<void> {
    this.#events.delete(events);
    if (this.#events.size === 0) await this.stop();
  }

  get name(): string {
    return this.#options.name;
  }

  /** Bytes of the model on disk: mostly weights. */
  get bytes(): number {
    return this.#options.packaged.size;
  }

  /**
   * Starts the process. May be called again after `stop` or a failure.
   * @throws SconceError `store_corrupt`, or the failure of the process
   */
  async start(): Promise<void> {
    const { source, config, packaged, name, isOneOfSeveral = false } = this.#options;
    const supervised = new Supervised({
      role: "engine",
      ...(isOneOfSeveral && { name: `engine process of ${name}` }),
      start: () => this.#start(),
      env: libtorchEnv(isOneOfSeveral),
      batchTimeoutMs: stuckAfterMs(config),
      onReady: () => {
        this.#isReady = true;
        for (const each of this.#events) each.ready(this.#socket);
      },
      onSilence: (isSilent) => {
        for (const each of this.#events) each.silent(isSilent);
      },
      onEnd: (reason, cause) => {
        this.#isReady = false;
        rmSync(this.#socket, { force: true });
        for (const each of this.#events) each.ended(reason, cause);
      },
    });
    this.#process = supervised;
    // The parent process verifies the weights, so that a restarted engine process need not hash them. The parent
    // process unpacks the libraries, because it can remove the files after a signal.
    [this.#verified] = await Promise.all([this.#verified ?? source?.verify(packaged), source?.unpackLibraries()]);
    await supervised.start();
  }

  async stop(): Promise<void> {
    await this.#process?.stop(STOP_MS);
  }

  #start(): EngineStart {
    const { argv, name, packaged, config, folder, socketName, isOneOfSeveral } = this.#options;
    // Each start uses a new path, so that no HTTP process reaches an earlier engine process.
    this.#socket = folder.join(`${socketName}-${this.#starts++}.sock`);
    return {
      argv: [...argv],
      name,
      isOneOfSeveral,
      tag: packaged.tag,
      reference: packaged.byDigest,
      home: packaged.home,
      config,
      socket: this.#socket,
      verified: this.#verified,
    };
  }
}
