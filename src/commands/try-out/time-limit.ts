/** A limit for each call of a model's own code, by its name: code that never returns would hang a build without a word. */
import { SconceError } from "../../errors.ts";
import { isLogJson } from "../../log.ts";
import { type Awaitable, Model } from "../../model/define.ts";

/** What the thread beside is told: the line to end with when the time is up, or that the call has ended. */
export interface Limited {
  readonly call: number;
  readonly late?: { readonly afterMs: number; readonly line: string };
}

/** Beyond the limit, for this thread to end the call itself: it cannot while the author's code holds it. */
const GRACE_MS = 500;

export class TimeLimit implements Disposable {
  readonly #limitMs: number;
  readonly #beside = new Worker(new URL("./time-limit-worker.ts", import.meta.url), { ref: false });
  #calls = 0;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** The model, each of whose functions has the limit. */
  model(model: Model): Model {
    const { setup, preprocess, predict, postprocess } = model;
    return new Model({
      ...model,
      setup: (context) => this.call("setup", () => setup(context)),
      preprocess: (input) => this.call("preprocess", () => preprocess(input)),
      predict: predict && ((batch, sessions) => this.call("predict", () => predict(batch, sessions))),
      postprocess: (rows, context) => this.call("postprocess", () => postprocess(rows, context)),
    });
  }

  /** @throws SconceError `model_invalid` that names it when it does not end in time */
  async call<T>(name: string, task: () => Awaitable<T>): Promise<T> {
    const call = this.#calls++;
    const fault = `${name} did not return within ${this.#limitMs / 1000} s (--timeout)`;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new SconceError("model_invalid", fault)), this.#limitMs);
    this.#tell({ call, late: { afterMs: this.#limitMs + GRACE_MS, line: lineOf(fault) } });
    try {
      return await Promise.race([task(), late.promise]);
    } finally {
      clearTimeout(timer);
      this.#tell({ call });
    }
  }

  #tell(message: Limited): void {
    this.#beside.postMessage(message);
  }

  [Symbol.dispose](): void {
    this.#beside.terminate();
  }
}

/** As any error of a command is printed. */
function lineOf(message: string): string {
  const line = { time: new Date().toISOString(), level: "error", message, code: "model_invalid" };
  return isLogJson() ? JSON.stringify(line) : `sconce: ${message}`;
}
