/** Finds the outputs of weights: runs them with zeros, at different batch sizes and free sizes. */

import type { CallResult } from "../../../author/session.ts";
import { arrayTypes, countOf, isTensor, type Tensor, type TensorSpec } from "../../../author/tensor.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { type NativeSession, openSession } from "../../../engine/native/binding.ts";
import { fixedBatchFault, fixedRowsCause, loadFault } from "../forward-fault.ts";
import { type FreeSize, specsOf, type TensorInput } from "./tensor-input.ts";

export interface ProbeOptions {
  readonly path: string;
  readonly device: string;
  readonly inputs: readonly TensorInput[];
  /**
   * Names of an AOTInductor package's outputs; unnamed ones are `output0`, `output1` and so on. Undefined for other
   * weights, whose results contain the names.
   */
  readonly outputNames: readonly string[] | undefined;
  /** Largest batch that the weights accept. */
  readonly maxRows: number;
  /** Whether the session pads batches that are too small for the weights. */
  readonly isFilled: boolean;
}

/** Values to try for a free size without a hint: 16, as in a short text, then 224, a common image size. */
const starts = [16, 224];

/**
 * Finds the outputs of one item, by name. A size that varies with a free size gets a name.
 * @throws SconceError `weights_invalid` when the weights do not run, or an output has no batch dimension
 */
export async function probeOutputs({ path, device, inputs, outputNames, maxRows, isFilled }: ProbeOptions) {
  const declared = outputNames === undefined ? { inputs: specsOf(inputs), outputs: {} } : {};
  const session = await openSession({ path, device, threads: 1, ...declared }).catch((error: unknown) => {
    throw loadFault(error);
  });
  try {
    const probe = new Probe(session, { inputs, names: outputNames ?? [], isFilled });
    const tried = starts.map((start) => new Map(probe.free.map((size) => [size.name, startOf(size, start)])));
    const { rows, sizes, outputs } = await probe.first(
      rowCounts(inputs, maxRows).flatMap((rows) => tried.map((sizes) => ({ rows, sizes }))),
    );
    const other = await probe.otherRows({ rows, sizes }, maxRows);
    const specs = new Map<string, (number | string)[]>();
    for (const [name, { shape }] of outputs) {
      const otherShape = other?.outputs.get(name)?.shape ?? [];
      if (shape[0] !== rows || (other !== undefined && otherShape[0] !== other.rows)) {
        const forOthers = other === undefined ? "" : ` and [${otherShape}] for ${other.rows}`;
        throw new SconceError(
          "weights_invalid",
          `the output ${name} has no batch dimension: its shape is [${shape}] for a batch of ${rows}${forOthers}`,
        );
      }
      if (!/^[A-Za-z_]\w*$/.test(name)) {
        throw new SconceError("weights_invalid", `the output ${name} needs another name: of letters, digits and _`);
      }
      specs.set(name, shape.slice(1));
    }
    for (const size of probe.free) {
      const start = sizes.get(size.name) ?? 1;
      const others = [start + 1, start - 1, start * 2].filter((other) => other >= size.min && other <= size.max);
      if (others.length === 0) continue;
      const other = await probe.first(others.map((next) => ({ rows, sizes: new Map(sizes).set(size.name, next) })));
      for (const [name, dims] of specs) {
        const [before = [], after = []] = [outputs.get(name)?.shape, other.outputs.get(name)?.shape];
        for (const i of dims.keys()) {
          if (before[i + 1] === after[i + 1]) continue;
          const isSame = typeof dims[i] === "number" && before[i + 1] === start;
          dims[i] = isSame && after[i + 1] === other.sizes.get(size.name) ? size.name : `${name}_${i + 1}`;
        }
      }
    }
    const found: [string, TensorSpec][] = [...outputs].map(([name, { dtype }]) => [
      name,
      { dtype, dims: specs.get(name) ?? [] },
    ]);
    return Object.fromEntries(found);
  } finally {
    await session.dispose();
  }
}

/** Batch sizes to try: two rows, then the smallest batch that the weights accept. */
function rowCounts(inputs: readonly TensorInput[], maxRows: number): readonly number[] {
  const [batch] = inputs[0]?.sizes ?? [];
  const least = typeof batch === "object" ? Math.max(2, batch.min) : (batch ?? 2);
  return [...new Set([Math.min(2, maxRows), Math.min(least, maxRows)])];
}

function startOf({ min, max, hint }: FreeSize, start: number): number {
  return hint ?? Math.min(max, Math.max(min, start));
}

interface Attempt {
  readonly rows: number;
  readonly sizes: ReadonlyMap<string, number>;
}

class Probe {
  /** Free sizes of the inputs, except the batch size. */
  readonly free: readonly FreeSize[];
  readonly #session: NativeSession;
  readonly #inputs: readonly TensorInput[];
  readonly #names: readonly string[];
  readonly #isFilled: boolean;

  constructor(
    session: NativeSession,
    {
      inputs,
      names,
      isFilled,
    }: { readonly inputs: readonly TensorInput[]; readonly names: readonly string[]; readonly isFilled: boolean },
  ) {
    this.#session = session;
    this.#inputs = inputs;
    this.#names = names;
    this.#isFilled = isFilled;
    const free = inputs.flatMap(({ sizes }) => sizes.slice(1).filter((size) => typeof size === "object"));
    this.free = [...new Map(free.map((size) => [size.name, size])).values()];
  }

  /** Runs attempts until one succeeds. @throws SconceError `weights_invalid` if none does */
  async first(attempts: readonly Attempt[]) {
    let fault: unknown;
    for (const { rows, sizes } of attempts) {
      try {
        return { rows, sizes, outputs: await this.run(rows, sizes) };
      } catch (error) {
        fault ??= error;
      }
    }
    const tried = attempts.map(({ rows, sizes }) => [`batch ${rows}`, ...[...sizes].map((size) => size.join(" "))]);
    const shown = [...new Set(tried.map((one) => one.join(", ")))].join("; ");
    const cause = fixedRowsCause(messageOf(fault), attempts[0]?.rows ?? 1);
    const why = cause === undefined ? messageOf(fault) : `${cause}. ${messageOf(fault)}`;
    throw new SconceError("weights_invalid", `the weights can't be run with zeros (${shown}): ${why}`, {
      cause: fault,
    });
  }

  /**
   * Runs a batch of another size than `rows`, with the same free sizes.
   * @returns undefined when the weights accept only batches of `rows`
   * @throws SconceError if the weights refuse a batch of one and the session does not pad it
   */
  async otherRows({ rows, sizes }: Attempt, maxRows: number) {
    for (const other of [1, 3, 4, 2 * rows]) {
      if (other === rows || other > maxRows) continue;
      const outputs = await this.run(other, sizes).catch((error: unknown) => {
        if (other === 1 && !this.#isFilled) throw fixedBatchFault(error, rows);
        return undefined;
      });
      if (outputs !== undefined) return { rows: other, outputs };
    }
    return undefined;
  }

  async run(rows: number, sizes: ReadonlyMap<string, number>): Promise<Map<string, Tensor>> {
    const zeros = this.#inputs.map(({ dtype, sizes: [, ...dims] }) => {
      const shape = [rows, ...dims.map((size) => (typeof size === "number" ? size : (sizes.get(size.name) ?? 1)))];
      return { dtype, shape, data: new arrayTypes[dtype](countOf(shape)) };
    });
    return tensorsOf(await this.#session.call("forward", zeros), this.#names);
  }
}

function tensorsOf(result: CallResult, names: readonly string[]): Map<string, Tensor> {
  if (isTensor(result)) return new Map([[names[0] ?? "output0", result]]);
  // Drops outputs that are None, as serving does.
  const entries = Array.isArray(result)
    ? result
        .filter((value: CallResult) => value !== null)
        .map((value: CallResult, i): [string, CallResult] => [names[i] ?? `output${i}`, value])
    : Object.entries(typeof result === "object" && result !== null ? result : { output0: result });
  const given = entries.filter(([, value]) => value !== null);
  return new Map(
    given.map(([name, value]) => {
      if (isTensor(value)) return [name, value];
      throw new SconceError("weights_invalid", `forward returns a value that is not a tensor for ${name}`);
    }),
  );
}
