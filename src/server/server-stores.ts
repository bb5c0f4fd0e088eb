/** The stores of the predictions of a server's models, in the supervisor. */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { openStore } from "../predictions/open-store.ts";
import type { Store, StoreRole } from "../predictions/store.ts";
import type { ServeConfig } from "./config.ts";
import type { Build } from "./model-table.ts";

/**
 * Keeps the stores open until the server stops, so that no other server takes the files while fronts restart.
 */
export class ServerStores implements AsyncDisposable {
  readonly #config: ServeConfig;
  readonly #builds: readonly Build[];
  readonly #opened: Store[] = [];
  readonly #closing = new AbortController();

  constructor(config: ServeConfig, builds: readonly Build[]) {
    this.#config = config;
    this.#builds = builds;
  }

  /** Aborts when the server stops. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Opens the stores of all models. @throws SconceError `predictions_unusable` if no store can be opened */
  async open(role: StoreRole): Promise<void> {
    const { signal } = this.#closing;
    await this.#each(async (path, config) => {
      this.#opened.push(await openStore(path, config, role, { signal }));
    });
  }

  /**
   * Opens, reads and closes the stores of all models, without the locks of the server that --take-over replaces.
   * @throws SconceError `predictions_unusable` if no store can be opened
   */
  async check(): Promise<void> {
    await this.#each(async (path, config) => {
      await using opened = new AsyncDisposableStack();
      const store = opened.adopt(await openStore(path, config, "member"), (it) => it.close());
      await store.read("");
    });
  }

  /**
   * Does work on the database of each model. Records an error, so that other models are served, and throws it only if
   * all models have one.
   */
  async #each(work: (path: string, config: ServeConfig) => Promise<void>): Promise<void> {
    for (const build of this.#builds) {
      const { store: path, served } = build.options;
      try {
        if (path !== undefined) await work(path, { ...this.#config, ...served.options });
      } catch (error) {
        if (this.closing.aborted) throw error;
        const fault = codedError(error);
        build.storeFault = fault.message;
        if (this.#builds.every(({ storeFault }) => storeFault !== undefined)) throw fault;
        log.error(`The store of the model ${build.label}: ${fault.message}`);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    for (const store of this.#opened) await store.close();
  }
}
