/** Runs batches through the model's `predict` function, which calls the sessions. */

import { hookError } from "../author/hook-fault.ts";
import { type InParts, isInParts } from "../author/parts.ts";
import type { CallArgument, CallResult, ModelSession, Predict } from "../author/session.ts";
import {
  arrayTypes,
  countOf,
  describeTensor,
  isSize,
  ModelTensor,
  type Tensor,
  type TensorSpec,
  type TensorSpecs,
} from "../author/tensor.ts";
import { SconceError } from "../base/errors.ts";
import { Turn } from "../base/turn.ts";
import { copied } from "./item-check.ts";
import { batchStacker, type NativeSession } from "./native/binding.ts";
import type { PartSink, Runner } from "./runner.ts";

interface PredictRunnerOptions {
  readonly sessions: Readonly<Record<string, NativeSession>>;
  readonly predict: Predict;
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  readonly parts: TensorSpecs;
}

/** Time after which a generator that does not wait lets the event loop turn: cancellations arrive then. */
const MAX_HOLD_MS = 2;

export class PredictRunner implements Runner {
  readonly #options: PredictRunnerOptions;
  readonly #native: readonly NativeSession[];
  readonly #sessions: Readonly<Record<string, ModelSession>>;
  readonly #stack: ReturnType<typeof batchStacker>;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: PredictRunnerOptions) {
    this.#options = options;
    this.#native = Object.values(options.sessions);
    this.#stack = batchStacker(options.inputs);
    this.#sessions = Object.fromEntries(
      Object.entries(options.sessions).map(([name, session]) => [name, callable(session)]),
    );
  }

  /** Runs one batch at a time: concurrent batches would mix the state of a module. */
  run(items: readonly (readonly Tensor[])[], parts?: PartSink): Promise<readonly Tensor[]> {
    const batch = this.#last.then(() => this.#run(items, parts));
    this.#last = batch.catch(() => {});
    return batch;
  }

  get packedLayers(): number {
    return this.#native.reduce((sum, session) => sum + session.packedLayers, 0);
  }

  settle(): void {
    // All sessions of a process settle together.
    this.#native[0]?.settle();
  }

  async setThreads(threads: number): Promise<void> {
    await Promise.all(this.#native.map((session) => session.setThreads(threads)));
  }

  async dispose(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#native.map((session) => session.dispose()));
  }

  async #run(items: readonly (readonly Tensor[])[], parts: PartSink | undefined): Promise<readonly Tensor[]> {
    if (this.#isClosed) throw new SconceError("session_closed", "the model was closed before this batch ran");
    const { predict, outputs } = this.#options;
    try {
      const given = await predict(this.#stack(items), this.#sessions);
      const whole = isInParts(given) ? await this.#inParts(given, items.length, parts) : given;
      return checkedOutputs(outputs, whole, items.length);
    } catch (error) {
      throw hookError(error, { name: "predict", given: Object.keys(this.#options.inputs) }, "run_failed");
    }
  }

  async #inParts(generator: InParts, items: number, parts: PartSink | undefined): Promise<unknown> {
    const turn = new Turn(MAX_HOLD_MS);
    let isDone = false;
    try {
      for (;;) {
        if (parts?.isOver) throw new SconceError("canceled", "all predictions of the batch have ended");
        const { done = false, value } = await generator.next();
        isDone = done;
        if (done) return value;
        const rows = checkedOutputs(this.#options.parts, value, items);
        parts?.part(rows);
        if (turn.isOver) await turn.next();
      }
    } finally {
      // Runs the author's `finally` blocks. Nobody needs their error.
      if (!isDone) await generator.return(undefined).catch(() => {});
    }
  }
}

function callable(session: NativeSession): ModelSession {
  return {
    call: <R extends CallResult = Tensor>(method: string, ...args: readonly CallArgument[]) =>
      // The author knows the result type of a method.
      session.call(method, args).then(withTensors) as Promise<R>,
  };
}

/** The result of a method, with tensors that have methods. */
function withTensors(result: CallResult): CallResult {
  if (typeof result !== "object" || result === null) return result;
  if (Array.isArray(result)) return result.map(withTensors);
  if (isTensor(result)) return new ModelTensor(result.dtype, result.shape, result.data);
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [name, withTensors(value)]));
}

/** The declared outputs in their order, copied: the model's code may use its buffers again. */
function checkedOutputs(specs: TensorSpecs, given: unknown, rows: number): readonly Tensor[] {
  if (typeof given !== "object" || given === null) throw unfit("nothing; return { name: tensor(…) }");
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(specs, name)) {
      throw unfit(`a tensor "${name}", which is not declared (${Object.keys(specs).join(", ")} are)`);
    }
  }
  const byName = new Map<string, unknown>(Object.entries(given));
  const outputs = Object.entries(specs).map(([name, spec]) => {
    const output = byName.get(name);
    if (output === undefined) throw unfit(`no tensor "${name}"`);
    if (output instanceof Promise) throw unfit(`a promise as "${name}": await the call that makes it`);
    if (!isTensor(output)) throw unfit(`no tensor as "${name}"; make one with tensor(data, shape)`);
    const { dtype, shape, data } = output;
    if (!fits(spec, output, rows)) {
      throw unfit(
        `"${name}" as ${describeTensor(dtype, shape)} with ${data.length} elements in a ${data.constructor.name}; declared for ${rows} items: ${describeTensor(spec.dtype, [rows, ...spec.dims])}`,
      );
    }
    return output;
  });
  return copied(outputs);
}

function isTensor(value: unknown): value is Tensor {
  return (
    typeof value === "object" &&
    value !== null &&
    "dtype" in value &&
    "shape" in value &&
    Array.isArray(value.shape) &&
    "data" in value &&
    ArrayBuffer.isView(value.data)
  );
}

function fits({ dtype, dims }: TensorSpec, output: Tensor, rows: number): boolean {
  const { shape, data } = output;
  return (
    output.dtype === dtype &&
    data instanceof arrayTypes[dtype] &&
    shape.length === dims.length + 1 &&
    shape[0] === rows &&
    shape.every(isSize) &&
    dims.every((dim, i) => typeof dim !== "number" || dim === shape[i + 1]) &&
    countOf(shape) === data.length
  );
}

function unfit(what: string): SconceError {
  return new SconceError("run_failed", `predict gave ${what}`);
}
