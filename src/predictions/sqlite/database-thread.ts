/** Calls the database on its thread. */
import { Fifo } from "../../base/collections/fifo.ts";
import { messageOf } from "../../base/errors.ts";
import type { Answer, Argument, Method, Result } from "./sqlite-worker.ts";

export class DatabaseThread {
  readonly #worker = new Worker(new URL("./sqlite-worker.ts", import.meta.url));
  /** Calls without an answer. The thread answers in the order of the calls. */
  readonly #waiting = new Fifo<Pick<PromiseWithResolvers<never>, "resolve" | "reject">>();
  /** Why the thread answers no calls. */
  #ended: string | undefined;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<Answer<never>>) => {
      if (data.fault === undefined) this.#waiting.shift()?.resolve(data.result);
      else this.#waiting.shift()?.reject(new Error(data.fault));
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
    const { promise, resolve, reject } = Promise.withResolvers<Result<M>>();
    this.#waiting.push({ resolve, reject });
    this.#worker.postMessage({ method, argument }, owned);
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
    for (let call = this.#waiting.shift(); call !== undefined; call = this.#waiting.shift())
      call.reject(new Error(this.#ended));
  }
}
