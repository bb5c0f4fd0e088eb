/** Calls the database on its thread. */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { messageOf } from "../../base/errors.ts";
import type { Aside, DatabaseOptions, PredictionDatabase } from "./prediction-database.ts";
import type { Totals } from "./rows.ts";

type Methods = Pick<PredictionDatabase, "write" | "get" | "sources" | "takeOver" | "webhooks" | "close"> & {
  open(options: DatabaseOptions): { readonly totals: Totals; readonly aside: Aside | undefined };
};

export type Method = keyof Methods;
export type Argument<M extends Method> = Parameters<Methods[M]>[0];
export type Result<M extends Method> = ReturnType<Methods[M]>;

export type Call<M extends Method = Method> = {
  [K in M]: { readonly number: number; readonly method: K; readonly argument: Argument<K> };
}[M];

/** A piece of a large body or outcome, for the next call of `write`. */
export interface Piece {
  readonly method: "piece";
  readonly piece: Uint8Array;
}

export type Answer<R = unknown> =
  | { readonly number: number; readonly result: R; readonly fault?: undefined }
  | { readonly number: number; readonly result?: undefined; readonly fault: string };

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

export class DatabaseThread {
  readonly #worker = new Worker(new URL("./sqlite-worker.ts", import.meta.url));
  readonly #waiting = new OpenMap<number, Waiting>(spread);
  #nextNumber = 0;
  /** Why the thread answers no calls. */
  #ended: string | undefined;
  onTended: (tended: Tended) => void = () => {};

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<Answer<never> | Tended>) => {
      if (data.number === undefined) return this.onTended(data);
      const waiting = this.#waiting.get(data.number);
      this.#waiting.delete(data.number);
      if (data.fault === undefined) waiting?.resolve(data.result);
      else waiting?.reject(new Error(data.fault));
    };
    this.#worker.onerror = (event) => this.#end(`its thread failed: ${messageOf(event.message)}`);
    this.#worker.addEventListener("close", () => this.#end("its thread ended"));
  }

  /** Rejects with an error whose message continues a sentence, such as "its thread ended". */
  call<M extends Method>(method: M, argument: Argument<M>): Promise<Result<M>> {
    if (this.#ended !== undefined) return Promise.reject(new Error(this.#ended));
    const number = this.#nextNumber++;
    const { promise, resolve, reject } = Promise.withResolvers<Result<M>>();
    this.#waiting.set(number, { resolve, reject });
    this.#worker.postMessage({ number, method, argument });
    return promise;
  }

  /** Sends a copy of the bytes. A message with a view would copy its whole buffer. */
  sendPiece(bytes: Uint8Array): void {
    const piece = bytes.slice();
    this.#worker.postMessage({ method: "piece", piece } satisfies Piece, [piece.buffer]);
  }

  /** Closes the database and ends the thread, even if closing fails. */
  async close(): Promise<void> {
    await this.call("close", undefined).catch(() => {});
    this.#end("it is closed");
    this.#worker.terminate();
  }

  #end(reason: string): void {
    this.#ended ??= reason;
    for (const { reject } of this.#waiting) reject(new Error(this.#ended));
  }
}
