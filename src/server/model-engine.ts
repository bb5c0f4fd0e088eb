/** Starts and stops the engine process of one model, in the supervisor. */
import { rmSync } from "node:fs";
import type { RestartCause } from "../base/labels.ts";
import { libtorchEnv } from "../machine/libtorch/libtorch-env.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { Stamps } from "../package/store/verification.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineStart } from "./engine-process.ts";
import { labelOf } from "./messages.ts";
import { type Loadable, type ServedOptions, startOf } from "./model-table.ts";
import { stuckAfterMs } from "./serve-limits.ts";

export interface ModelEngineOptions {
  readonly served: ServedOptions;
  /** Options of the server. */
  readonly config: ServeConfig;
  readonly source: Pick<ModelSource, "verify" | "unpackLibraries"> | undefined;
  readonly folder: RunFolder;
  /** Number of the process in log lines and in `ps`. */
  readonly number: number;
  /** Whether the server has other models, which compete for the cores. */
  readonly hasOthers: boolean;
  /** Called when a process is ready or has ended. */
  readonly onChange: () => void;
  /** Called when a process has ended that the server did not stop. */
  readonly onRestart: (cause: RestartCause) => void;
}

/** Milliseconds that the engine process may take to exit. */
const STOP_MS = 5000;

let starts = 0;

export class ModelEngine implements Loadable {
  socket: string | undefined;
  ended: string | undefined;
  readonly #options: ModelEngineOptions;
  #process: Supervised | undefined;
  #verified: Stamps | undefined;

  constructor(options: ModelEngineOptions) {
    this.#options = options;
  }

  /**
   * Starts the process. May be called again after `stop` or a failure.
   * @throws SconceError `store_corrupt`, or the failure of the process
   */
  async start(): Promise<void> {
    const { source, config, served, number, hasOthers, onChange, onRestart } = this.#options;
    const label = labelOf(startOf(served));
    // Each start uses a new path, so that no front reaches an earlier engine process.
    let socket = "";
    const supervised = new Supervised({
      role: "engine",
      title: `${number} ${label}`,
      name: `engine process ${number} of ${label}`,
      start: () => {
        socket = this.#options.folder.join(`engine-${starts++}.sock`);
        return this.#start(socket);
      },
      env: libtorchEnv(hasOthers),
      stuckAfterMs: stuckAfterMs({ ...config, ...served.options }),
      onReady: () => {
        this.socket = socket;
        onChange();
      },
      onEnd: (reason, cause) => {
        rmSync(socket, { force: true });
        this.socket = undefined;
        this.ended = reason;
        if (cause !== undefined) onRestart(cause);
        onChange();
      },
    });
    this.#process = supervised;
    // The supervisor verifies the weights, so that a restarted engine process need not hash them. The supervisor
    // unpacks the libraries, because it can remove the files after a signal.
    const { packaged } = served;
    [this.#verified] = await Promise.all([this.#verified ?? source?.verify(packaged), source?.unpackLibraries()]);
    await supervised.start();
  }

  async stop(): Promise<void> {
    await this.#process?.stop(STOP_MS);
  }

  #start(socket: string): EngineStart {
    const { config, served, number } = this.#options;
    return { config, ...startOf(served), number, socket, verified: this.#verified };
  }
}
