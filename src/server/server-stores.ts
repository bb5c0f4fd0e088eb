/** The databases of the predictions of a server's models, in the supervisor. The fronts open them. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { codedError, messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { storeLocation } from "../machine/files/location.ts";
import type { FileLock } from "../machine/files/lock.ts";
import { checkDatabase, lockDatabase, prepareFolder } from "../predictions/sqlite/server-database.ts";
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
      this.#locks.push(await lockDatabase(path, this.closing));
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

/**
 * Path of the SQLite database. Undefined for a store in memory: with `--store memory`, or without --store if the port
 * is 0 or the default folder cannot be written.
 * @param isOneOfSeveral whether the server has several models, so that `--store` names a folder with a database for
 * each
 * @throws SconceError `usage` if `--store` names a file where a folder is needed, or the reverse
 */
export function storePath(
  name: string,
  { store, port }: { readonly store: string | undefined; readonly port: number },
  isOneOfSeveral = false,
): string | undefined {
  const file = encodeURIComponent(name).replaceAll("%3A", ":");
  if (store === "memory") return undefined;
  if (store !== undefined) {
    checkKind(store, `${file}.sqlite`, isOneOfSeveral);
    const path = isOneOfSeveral ? join(store, `${file}.sqlite`) : store;
    if (isOneOfSeveral) prepareFolder(path);
    return path;
  }
  // With port 0, a restarted server has another port, and the name of its file would differ.
  if (port === 0) return undefined;
  const path = join(storeLocation(), "predictions", `${file}-${port}.sqlite`);
  try {
    prepareFolder(path);
    return path;
  } catch (error) {
    log.warn(`Predictions are kept in memory and lost with the server: ${messageOf(error)}; name a file with --store`);
    return undefined;
  }
}

function checkKind(store: string, file: string, isOneOfSeveral: boolean): void {
  const found = statSync(store, { throwIfNoEntry: false });
  if (isOneOfSeveral && found?.isFile()) {
    throw new SconceError(
      "usage",
      `--store ${store} is a file; with several models, name a folder for the files of all`,
    );
  }
  if (!isOneOfSeveral && found?.isDirectory()) {
    throw new SconceError("usage", `--store ${store} is a folder; with one model, name a file: ${join(store, file)}`);
  }
}
