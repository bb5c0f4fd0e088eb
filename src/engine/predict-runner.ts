/** Runs batches through the model's `predict` function, which calls the sessions. */

import { drained, type InParts, isInParts } from "../author/parts.ts";
import type { Predict } from "../author/session.ts";
import type { Tensor } from "../author/tensor.ts";
import { AuthorRunner, type AuthorRunnerOptions } from "./author-runner.ts";
import { checkedOutputs } from "./checked-outputs.ts";
import { hookError } from "./hook-fault.ts";
import { batchStacker } from "./native/binding.ts";
import type { PartSink, Runner } from "./runner.ts";

interface PredictRunnerOptions extends AuthorRunnerOptions {
  readonly predict: Predict;
}

export class PredictRunner extends AuthorRunner implements Runner {
  readonly #options: PredictRunnerOptions;
  readonly #stack: ReturnType<typeof batchStacker>;

  constructor(options: PredictRunnerOptions) {
    super(options);
    this.#options = options;
    this.#stack = batchStacker(options.inputs);
  }

  run(items: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]> {
    return this.inTurn(() => this.#run(items, parts));
  }

  async #run(items: readonly (readonly Tensor[])[], parts: PartSink | undefined): Promise<readonly Tensor[]> {
    const { predict, outputs } = this.#options;
    try {
      const given = await predict(this.#stack(items), this.sessions, this.caller);
      const whole = isInParts(given) ? await this.#inParts(given, items.length, parts) : given;
      return await checkedOutputs(outputs, whole, { hook: "predict", rows: items.length, isLast: true });
    } catch (error) {
      throw hookError(error, "predict", "run_failed");
    }
  }

  #inParts(generator: InParts, rows: number, parts: PartSink | undefined): Promise<unknown> {
    return drained(generator, {
      isOver: () => parts?.isOver ?? false,
      ended: "all predictions of the batch have ended",
      next: () => generator.next(),
      part: async (value) =>
        parts?.part(await checkedOutputs(this.#options.parts, value, { hook: "predict", rows, isLast: false })),
    });
  }
}
