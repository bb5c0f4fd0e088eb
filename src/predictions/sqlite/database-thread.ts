/** Calls the database on its thread, and starts a new thread if the thread dies. */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { messageOf } from "../../base/errors.ts";
import type { Aside, DatabaseOptions, PredictionDatabase } from "./prediction-database.ts";
import type { Totals } from "./rows.ts";

type Methods = Pick<PredictionDatabase, "write" | "get" | "sources" | "takeOver" | "webhooks" | "close"> & {
  open(options: DatabaseOptions): Opened;
};

export type Opened = Totals & { readonly aside: Aside | undefined };
export type Method = keyof Methods;
export type Argument<M extends Method> = Parameters<Methods[M]>[0];
export type Result<M extends Method> = ReturnType<Methods[M]>;

export type Call<M extends Method = Method> = {
  [K in M]: { readonly number: number; readonly method: K; readonly argument: Argument<K> };
}[M];

export type Answer<R = unknown> =
  | { readonly number: number; readonly result: R; readonly fault?: undefined }
  | { readonly number: number; readonly fault: string };

/** Message of the thread after maintenance. It answers no call, so it has no number. */
export interface Tended {
  readonly number?: undefined;
  readonly totals: Totals;
  /** Whether the file of the database was deleted or replaced. */
  readonly isDetached: boolean;
}

interface Waiting {
  /** Called with the result when the thread answers the call. */
  resolve(result: never): void;
  reject(error: unknown): void;
}

/** Runs calls on the thread. The message of a rejected call continues a sentence, such as "its thread ended". */
export class DatabaseThread {
  readonly #options: () => DatabaseOptions;
  readonly #newWorker: () => Worker;
  #waiting = new OpenMap<number, Waiting>(spread);
  #worker: Worker | undefined;
  #opened: Promise<Opened> | undefined;
  #nextNumber = 0;
  onTended: (tended: Tended) => void = () => {};

  /** @param options called for each new thread, because the options contain the current time */
  constructor(options: () => DatabaseOptions, newWorker: () => Worker = sqliteWorker) {
    this.#options = options;
    this.#newWorker = newWorker;
  }

  open(): Promise<Opened> {
    this.#opened ??= this.#start();
    return this.#opened;
  }

  async call<M extends Exclude<Method, "open" | "close">>(method: M, argument: Argument<M>): Promise<Result<M>> {
    await this.open();
    const worker = this.#worker;
    if (worker === undefined) throw new Error("its thread ended");
    return this.#post(worker, method, argument);
  }

  /** Closes the database and ends the thread, even if closing fails. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    try {
      await this.#post(worker, "close", undefined).catch(() => {});
    } finally {
      this.#lose(worker, "it is closed");
      worker.terminate();
    }
  }

  async #start(): Promise<Opened> {
    const worker = this.#newWorker();
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<Answer<never> | Tended>) => {
      if (data.number === undefined) return this.onTended(data);
      const waiting = this.#waiting.get(data.number);
      this.#waiting.delete(data.number);
      if (data.fault === undefined) waiting?.resolve(data.result);
      else waiting?.reject(new Error(data.fault));
    };
    worker.onerror = (event) => this.#lose(worker, `its thread failed: ${messageOf(event.message)}`);
    worker.addEventListener("close", () => this.#lose(worker, "its thread ended"));
    try {
      return await this.#post(worker, "open", this.#options());
    } catch (error) {
      this.#lose(worker, messageOf(error));
      worker.terminate();
      throw error;
    }
  }

  #post<M extends Method>(worker: Worker, method: M, argument: Argument<M>): Promise<Result<M>> {
    const number = this.#nextNumber++;
    const { promise, resolve, reject } = Promise.withResolvers<Result<M>>();
    this.#waiting.set(number, { resolve, reject });
    worker.postMessage({ number, method, argument });
    return promise;
  }

  /** Rejects all calls of a thread that has ended. The next call starts a new thread. */
  #lose(worker: Worker, reason: string): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#opened = undefined;
    const waiting = this.#waiting;
    this.#waiting = new OpenMap(spread);
    for (const { reject } of waiting) reject(new Error(reason));
  }
}

function sqliteWorker(): Worker {
  return new Worker(new URL("./sqlite-worker.ts", import.meta.url));
}
