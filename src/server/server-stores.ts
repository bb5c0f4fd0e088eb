/** The databases of the predictions of a server's models, in the supervisor. The fronts open them. */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { FileLock } from "../machine/files/lock.ts";
import { checkDatabase, lockDatabase } from "../predictions/sqlite/server-database.ts";
import type { Build } from "./model-table.ts";

/** Locks the databases until the server stops, so that no other server takes the files while fronts restart. */
export class ServerStores implements Disposable {
  readonly #builds: readonly Build[];
  readonly #locks: FileLock[] = [];
  readonly #closing = new AbortController();

  constructor(builds: readonly Build[]) {
    this.#builds = builds;
  }

  /** Aborts when the server stops. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * Locks the databases of all models unless `isTakeOver`, and checks them.
   * @throws SconceError `predictions_unusable` if no database can be used
   */
  async check(isTakeOver: boolean): Promise<void> {
    await this.#each(async (path) => {
      if (!isTakeOver) this.#locks.push(await lockDatabase(path));
      checkDatabase(path, !isTakeOver);
    });
  }

  /** Locks the databases of all models, as soon as the server that --take-over replaces has ended. */
  async lock(): Promise<void> {
    await this.#each(async (path) => {
      this.#locks.push(await lockDatabase(path, { waits: true, signal: this.closing }));
    });
  }

  /**
   * Does work on the database of each model. Records an error, so that other models are served, and throws it only if
   * all models have one.
   */
  async #each(work: (path: string) => Promise<void>): Promise<void> {
    for (const build of this.#builds) {
      try {
        if (build.options.store !== undefined) await work(build.options.store);
      } catch (error) {
        if (this.closing.aborted) throw error;
        const fault = codedError(error);
        build.storeFault = fault.message;
        if (this.#builds.every(({ storeFault }) => storeFault !== undefined)) throw fault;
        log.error(`The store of the model ${build.label}: ${fault.message}`);
      }
    }
  }

  [Symbol.dispose](): void {
    this.#closing.abort();
    for (const lock of this.#locks) lock.release();
  }
}
