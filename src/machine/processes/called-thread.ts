/** Calls functions on a thread, so that the caller's event loop never waits for their disk or locks. */
import { Fifo } from "../../base/collections/fifo.ts";
import { messageOf } from "../../base/errors.ts";

declare const self: Worker;

type Functions = Readonly<Record<string, (argument: never) => unknown>>;
type Argument<F extends Functions, N extends keyof F> = Parameters<F[N]>[0];
type Result<F extends Functions, N extends keyof F> = ReturnType<F[N]>;

type Call<F extends Functions, N extends keyof F = keyof F> = {
  [K in N]: { readonly name: K; readonly argument: Argument<F, K> };
}[N];

/** The answer to the oldest call without an answer. */
type Answer<R = unknown> =
  | { readonly result: R; readonly fault?: undefined }
  | { readonly result?: undefined; readonly fault: string };

/** A thread with functions by name, among them `close`. */
export class CalledThread<F extends Functions & { close(): void }> {
  readonly #worker: Worker;
  /** Calls without an answer. The thread answers in the order of the calls. */
  readonly #waiting = new Fifo<Pick<PromiseWithResolvers<never>, "resolve" | "reject">>();
  /** Why the thread answers no calls. */
  #ended: string | undefined;

  /** @param module file that calls `answerCalls` */
  constructor(module: URL) {
    this.#worker = new Worker(module);
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
  call<N extends keyof F>(name: N, argument: Argument<F, N>, owned: ArrayBuffer[] = []): Promise<Result<F, N>> {
    if (this.#ended !== undefined) return Promise.reject(new Error(this.#ended));
    const { promise, resolve, reject } = Promise.withResolvers<Result<F, N>>();
    this.#waiting.push({ resolve, reject });
    this.#worker.postMessage({ name, argument }, owned);
    return promise;
  }

  /** Calls `close`, and ends the thread even if the call fails. */
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

/** Answers the calls to this thread. @param faultOf the message of an error for the caller */
export function answerCalls<F extends Functions>(
  functions: { readonly [N in keyof F]: (argument: Argument<F, N>) => Result<F, N> },
  faultOf: (error: unknown) => string,
): void {
  const answer = <N extends keyof F>({ name, argument }: Call<F, N>): Answer<Result<F, N>> => {
    try {
      return { result: functions[name](argument) };
    } catch (error) {
      return { fault: faultOf(error) };
    }
  };
  self.onmessage = ({ data }: MessageEvent<Call<F>>) => self.postMessage(answer(data));
}
