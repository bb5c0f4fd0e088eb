/** The stores of the predictions of a server's models, in the supervisor. */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { openStore } from "../predictions/open-store.ts";
import type { Store, StoreRole } from "../predictions/store.ts";
import type { ServeConfig } from "./config.ts";

interface StoredModel {
  readonly name: string;
  readonly config: ServeConfig;
  /** Path of the database of predictions; undefined for predictions in memory. */
  readonly store: string | undefined;
}

/**
 * Keeps the stores open until the server stops, so that no other server takes the files while fronts restart.
 */
export class ServerStores implements AsyncDisposable {
  readonly #models: readonly StoredModel[];
  readonly #opened: { readonly store: Store }[] = [];
  /** Why stores cannot be opened or read, by model. */
  readonly faults = new Map<StoredModel, string>();
  readonly #closing = new AbortController();

  constructor(models: readonly StoredModel[]) {
    this.#models = models;
  }

  /** Aborts when the server stops. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Opens the stores of all models. @throws SconceError `predictions_unusable` if no store can be opened */
  async open(role: StoreRole): Promise<void> {
    const { signal } = this.#closing;
    for (const model of this.#models) {
      const { store: path, config } = model;
      if (path === undefined) continue;
      await this.#try(model, async () => {
        this.#opened.push({ store: await openStore(path, config, role, { signal }) });
      });
    }
  }

  /**
   * Opens, reads and closes the stores of all models, without the locks of the server that --take-over replaces.
   * @throws SconceError `predictions_unusable` if no store can be opened
   */
  async check(): Promise<void> {
    for (const model of this.#models) {
      const { store: path, config } = model;
      if (path === undefined) continue;
      await this.#try(model, async () => {
        await using opened = new AsyncDisposableStack();
        const store = opened.adopt(await openStore(path, config, "member"), (it) => it.close());
        await store.sources?.();
      });
    }
  }

  /**
   * Does work on a model's store. Records an error, so that other models are served, and throws it only if all stores
   * fail.
   */
  async #try(model: StoredModel, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (this.closing.aborted) throw error;
      const fault = codedError(error);
      this.faults.set(model, fault.message);
      if (this.faults.size === this.#models.length) throw fault;
      log.error(`The store of the model ${model.name}: ${fault.message}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    for (const { store } of this.#opened) await store.close();
  }
}
