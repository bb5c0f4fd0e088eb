/** Calls the database on its thread. */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { messageOf } from "../../base/errors.ts";
import type { Answer, Argument, Method, Result, Tended } from "./sqlite-worker.ts";

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

  /**
   * @param owned buffers in the argument that the thread gets without a copy
   * @throws an error whose message continues a sentence, such as "its thread ended"
   */
  call<M extends Method>(method: M, argument: Argument<M>, owned: ArrayBuffer[] = []): Promise<Result<M>> {
    if (this.#ended !== undefined) return Promise.reject(new Error(this.#ended));
    const number = this.#nextNumber++;
    const { promise, resolve, reject } = Promise.withResolvers<Result<M>>();
    this.#waiting.set(number, { resolve, reject });
    this.#worker.postMessage({ number, method, argument }, owned);
    return promise;
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
