/**
 * Outputs in parts: reads the async generators that `postprocess` and `predict` return, and checks their declaration.
 */
import { SconceError } from "../base/errors.ts";
import { Turn } from "../base/turn.ts";

/** A generator that yields parts of an output and returns the whole output. */
export type InParts = AsyncGenerator<unknown, unknown, undefined>;

/** Whether an author's function returned an async generator. Plain outputs have no methods such as `next`. */
export function isInParts(value: unknown): value is InParts {
  return (
    typeof value === "object" &&
    value !== null &&
    Symbol.asyncIterator in value &&
    "next" in value &&
    typeof value.next === "function"
  );
}

interface PartReader {
  /** Whether the prediction has ended, so that reading stops. */
  isOver(): boolean;
  /** Message of the error `canceled` if the prediction has ended. */
  readonly ended: string;
  /** Runs the generator to its next yield. */
  next(): Promise<IteratorResult<unknown, unknown>>;
  part(value: unknown): Promise<void>;
}

/**
 * Reads all parts of a generator. Between parts the event loop runs other work, so that cancellations arrive.
 * @returns the whole output, which the generator returns
 * @throws SconceError `canceled`, or an error of the generator or the reader
 */
export async function drained(generator: InParts, reader: PartReader): Promise<unknown> {
  const turn = new Turn();
  let isDone = false;
  try {
    for (;;) {
      if (reader.isOver()) throw new SconceError("canceled", reader.ended);
      const { done = false, value } = await reader.next();
      isDone = done;
      if (done) return value;
      await reader.part(value);
      if (turn.isOver) await turn.next();
    }
  } finally {
    // Runs the author's `finally` blocks. Their errors are dropped, because another error stopped the generator.
    if (!isDone) await generator.return(undefined).catch(() => {});
  }
}

/** The fix in error messages about a missing `part`. */
export const partFix = "declare the schema of a part beside output, e.g. part: z.string()";

interface Declared {
  readonly part?: unknown;
  readonly tensors?: { readonly parts?: unknown } | undefined;
  readonly predict?: unknown;
  readonly step?: unknown;
  readonly postprocess: unknown;
  readonly postprocessPart?: unknown;
}

/** Faults in the declaration of functions that yield parts, each with the field and the fix. */
export function partFaults(declared: Declared): string[] {
  const { part, tensors, predict, step, postprocess, postprocessPart } = declared;
  const faults: string[] = [];
  if (step !== undefined && postprocessPart !== undefined && part === undefined) {
    faults.push(`part: is missing; postprocessPart makes parts of what step returns: ${partFix}`);
  }
  for (const [name, hook] of Object.entries({ predict, postprocess })) {
    if (kindOf(hook) === "sync") faults.push(`${name}: is a generator that is not asynchronous; write async *${name}`);
    if (kindOf(hook) === "async" && part === undefined) {
      faults.push(`part: is missing; async *${name} yields parts: ${partFix}`);
    }
  }
  if (kindOf(predict) === "async" && part !== undefined && postprocessPart === undefined) {
    faults.push(
      "postprocessPart: is missing; async *predict yields stacked rows: write postprocessPart(rows, { input, sequence }), which turns the rows of an item into a part",
    );
  }
  if (predict === undefined && step === undefined) {
    const needless = Object.entries({ postprocessPart, "tensors.parts": tensors?.parts });
    for (const [field, value] of needless) {
      if (value !== undefined) faults.push(`${field}: is for the rows that async *predict yields; write predict, too`);
    }
  }
  return faults;
}

const SyncGenerator = function* () {}.constructor;
const AsyncGenerator = async function* () {}.constructor;

function kindOf(hook: unknown): "sync" | "async" | undefined {
  if (hook instanceof AsyncGenerator) return "async";
  return hook instanceof SyncGenerator ? "sync" : undefined;
}
