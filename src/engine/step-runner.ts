/** Calls a model's `begin` and `step` functions. A tensor on the device lives as long as the state that holds it. */

import type { Steps } from "../author/session.ts";
import { ModelTensor, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import { copied } from "../author/tensor-memory.ts";
import { SconceError } from "../base/errors.ts";
import { AuthorRunner, type AuthorRunnerOptions } from "./author-runner.ts";
import { checkedOutputs } from "./checked-outputs.ts";
import { hookError } from "./hook-fault.ts";
import { sizesOf, stackedRows } from "./rows.ts";
import type { PartSink, Runner, Stepped, Stepper } from "./runner.ts";

interface StepRunnerOptions extends AuthorRunnerOptions {
  readonly steps: Steps;
}

/** Limit of one `run`, because an item may never end. */
const MAX_STEPS = 10_000;

export class StepRunner extends AuthorRunner implements Runner, Stepper {
  readonly stepper = this;
  readonly #options: StepRunnerOptions;

  constructor(options: StepRunnerOptions) {
    super(options);
    this.#options = options;
  }

  async begin(tensors: readonly Tensor[]): Promise<unknown> {
    const { steps, inputs } = this.#options;
    const names = Object.keys(inputs);
    // The given tensors may lie in shared memory, which later items overwrite.
    const own = tensors.map(copied).map(({ dtype, shape, data }, i) => [names[i], new ModelTensor(dtype, shape, data)]);
    try {
      const state = await steps.begin(Object.fromEntries(own), this.sessions, this.caller);
      this.tensors.search(state);
      return state;
    } catch (error) {
      throw hookError(error, "begin", "run_failed");
    }
  }

  async step(states: readonly unknown[]): Promise<readonly Stepped[]> {
    const { steps } = this.#options;
    try {
      const results: unknown = await steps.step(states, this.sessions, this.caller);
      if (!Array.isArray(results) || results.length !== states.length) {
        const given = Array.isArray(results) ? `a list of ${results.length}` : typeof results;
        throw unfit(`${given} for ${states.length} states; return a list with a result for each state`);
      }
      return await Promise.all(results.map((result: unknown) => this.#stepped(result)));
    } catch (error) {
      throw hookError(error, "step", "run_failed");
    }
  }

  free(states: readonly unknown[]): void {
    this.tensors.free(states);
  }

  /**
   * Runs a batch of items from their first to their last step, for warm-up and measurements. Outputs of all items must
   * have equal sizes.
   * @param parts receives the partial outputs, if the batch has only one item
   * @throws SconceError `run_failed` if an item does not end in `MAX_STEPS` steps
   */
  run(items: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]> {
    return this.inTurn(async () => {
      const outputs: (readonly Tensor[])[] = [];
      let running = await this.#startAll(items);
      for (let steps = 0; running.length > 0; steps++) {
        if (steps === MAX_STEPS) throw unended();
        const results = await this.step(running.map(({ state }) => state));
        running = running.flatMap(({ at }, i) => {
          const result = results[i];
          if (result?.part !== undefined && items.length === 1) parts?.part(stackedRows([result.part]));
          if (result?.outputs === undefined) return [{ at, state: result?.state }];
          outputs[at] = result.outputs;
          return [];
        });
        this.free(running.map(({ state }) => state));
      }
      if (new Set(outputs.map(sizesOf)).size > 1) {
        throw new SconceError("run_failed", "the outputs of items that ran together have several sizes");
      }
      return stackedRows(outputs);
    });
  }

  rehearse(items: readonly (readonly Tensor[])[]): Promise<unknown> {
    return this.inTurn(async () => this.step((await this.#startAll(items)).map(({ state }) => state)));
  }

  async #startAll(items: readonly (readonly Tensor[])[]): Promise<{ at: number; state: unknown }[]> {
    const running: { at: number; state: unknown }[] = [];
    for (const [at, tensors] of items.entries()) running.push({ at, state: await this.begin(tensors) });
    return running;
  }

  async #stepped(result: unknown): Promise<Stepped> {
    if (typeof result !== "object" || result === null || "state" in result === "outputs" in result) {
      throw unfit("a result without a state; each result is { state } or { outputs }, and may have a part");
    }
    const { outputs, parts } = this.#options;
    const part = "part" in result && result.part !== undefined ? await checked(parts, result.part) : undefined;
    if ("outputs" in result) return { part, outputs: await checked(outputs, result.outputs) };
    const state = "state" in result ? result.state : undefined;
    this.tensors.search(state);
    return { part, state };
  }
}

function checked(specs: TensorSpecs, given: unknown): Promise<readonly Tensor[]> {
  return checkedOutputs(specs, given, { hook: "step", rows: undefined, isLast: false });
}

function unended(): SconceError {
  const fix = "return { outputs } in the last step, or declare a shorter example";
  return new SconceError("run_failed", `the example did not end in ${MAX_STEPS} steps`, { fix });
}

function unfit(what: string): SconceError {
  return new SconceError("run_failed", `step gave ${what}`);
}
