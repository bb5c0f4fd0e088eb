/** A time limit for each call of model code: a promise that never settles would end a build without a message. */

import type { Awaitable, OpenedModel } from "../../author/define.ts";
import { isInParts } from "../../author/parts.ts";
import { SconceError } from "../../base/errors.ts";

export class TimeLimit {
  readonly #limitMs: number;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** The model with the limit on `setup`, `preprocess`, `predict`, `postprocess` and `postprocessPart`. */
  model(model: OpenedModel): OpenedModel {
    const { setup, preprocess, predict, postprocess, postprocessPart } = model;
    return {
      ...model,
      setup: (context) => this.call("setup", () => setup(context)),
      preprocess: (input, caller) => this.call("preprocess", () => preprocess(input, caller)),
      predict: predict && this.#predict(predict),
      postprocessPart:
        postprocessPart && ((rows, context) => this.call("postprocessPart", () => postprocessPart(rows, context))),
      postprocess: async (rows, context) =>
        this.#each("postprocess", await this.call("postprocess", () => postprocess(rows, context))),
    };
  }

  /** Applies the limit to `predict`, or to each call of `begin` and `step`. */
  #predict(predict: NonNullable<OpenedModel["predict"]>): OpenedModel["predict"] {
    if (typeof predict === "function") {
      return async (...given) => this.#each("predict", await this.call("predict", () => predict(...given)));
    }
    return {
      begin: (...given) => this.call("begin", () => predict.begin(...given)),
      step: (...given) => this.call("step", () => predict.step(...given)),
    };
  }

  /** If the function returned a generator, applies the limit to each value that it yields. */
  #each<T>(name: string, made: T): T {
    if (!isInParts(made)) return made;
    const next = made.next.bind(made);
    made.next = () => this.call(name, () => next());
    return made;
  }

  /** Runs a call. @throws SconceError `model_invalid` naming the call when it exceeds the limit */
  async call<T>(name: string, task: () => Awaitable<T>): Promise<T> {
    const fault = `${name} did not return within ${this.#limitMs / 1000} s (--timeout)`;
    const timedOut = Promise.withResolvers<never>();
    const timer = setTimeout(() => timedOut.reject(new SconceError("model_invalid", fault)), this.#limitMs);
    try {
      return await Promise.race([task(), timedOut.promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}
