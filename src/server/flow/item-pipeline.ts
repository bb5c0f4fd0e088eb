/** The model's code for an item: `preprocess` from an input to tensors, `postprocess` from rows to an output, and the demo. */

import { isDataUrl } from "../../author/data-url.ts";
import type { DemoContext, Model } from "../../author/define.ts";
import { limitFaults } from "../../author/fault-limit.ts";
import { type FileLimits, filesOf, type ModelFile } from "../../author/file.ts";
import { hookError } from "../../author/hook-fault.ts";
import { withBytesOf } from "../../author/ndarray-wire.ts";
import { type InParts, isInParts, partFix } from "../../author/parts.ts";
import { type PlainCheck, plainCheck } from "../../author/plain-check.ts";
import { arrayTypes, countOf, fixedShape, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { withholding } from "../../author/withheld-files.ts";
import * as z from "../../author/z.ts";
import { withoutUnions } from "../../author/zod-issues.ts";
import { SconceError } from "../../base/errors.ts";
import { isObject } from "../../base/json.ts";
import { Turn } from "../../base/turn.ts";
import type { Rows } from "../../engine/engine.ts";
import { MAX_FAULTS } from "../inputs/input-decoder.ts";
import type { FileCharge } from "../memory/file-memory.ts";
import type { FetchedFile, Fetcher } from "./fetcher.ts";
import { Hooks } from "./hooks.ts";
import { listForm, type TextForm } from "./item-list.ts";
import { isLarge, LargeJson } from "./large-json.ts";
import type { InputPlace } from "./running-hooks.ts";

export type Tensors = Readonly<Record<string, Tensor>>;

/** The server's limits for a file. The limits of the field apply too. */
export type FileCaps = Partial<Pick<FileLimits, "maxBytes" | "maxPixels">>;

type HookName = "preprocess" | "postprocess" | "demo";

const noFiles: readonly ModelFile[] = [];

/** Time after which a generator that does not wait lets the event loop turn. */
const MAX_HOLD_MS = 2;

/** Limit for the reported faults of an output. A large array can have a fault for each element. */
const MAX_OUTPUT_FAULTS = 10;

/** JSON text; large JSON as UTF-8 in pieces. */
export type Encoded = string | readonly Uint8Array[];

export function wholeText(text: Encoded): string {
  return typeof text === "string" ? text : Buffer.concat(text).toString();
}

export interface FinishOptions {
  /** Set if a large output may become text for `encode` already, in many turns of the event loop. */
  readonly textForm?: TextForm | undefined;
  /** The input's place in its prediction. */
  readonly place?: InputPlace | undefined;
  readonly parts?: PartReceiver | undefined;
}

/** Receives the parts of an output. */
export interface PartReceiver {
  /** Whether nobody needs the output: then the generator stops at its next `yield`. */
  readonly isOver: boolean;
  part(text: Encoded): void;
}

export interface DemoReceiver {
  /** Takes memory for outputs, of the model and as texts; @throws SconceError where there are too many */
  readonly take: (bytes: number) => void;
  /** Called for each output of a model without a demo, before all outputs are there. */
  readonly onOutput?: ((index: number, text: Encoded) => void) | undefined;
}

interface DemoTools extends DemoReceiver, Omit<DemoContext, "predict"> {
  readonly predict: (
    inputs: readonly unknown[],
    onOutput?: (index: number, output: unknown) => void,
  ) => Promise<unknown[]>;
}

export interface DemoResult {
  readonly outputs: readonly Encoded[];
  readonly demoOutputs: readonly Encoded[];
}

/** An output as JSON text. */
class OutputText {
  readonly text: Encoded;

  constructor(text: Encoded) {
    this.text = text;
  }
}

export class ItemPipeline {
  readonly #model: Model;
  readonly #fetcher: Fetcher;
  readonly #fileCaps: FileCaps;
  readonly #hooks: Hooks;
  /** False for a plain JSON input, which needs no search for files. */
  readonly #mayHaveFiles: boolean;
  readonly #isPlainOutput: PlainCheck | undefined;
  readonly #isPlainPart: PlainCheck | undefined;
  readonly #largeJson = new LargeJson();

  /** Tensor bytes of an item as declared; undefined where a size is free. */
  readonly declaredBytes: number | undefined;

  constructor(model: Model, fetcher: Fetcher, fileCaps: FileCaps = {}, hooks = new Hooks()) {
    this.#hooks = hooks;
    this.#model = model;
    this.#fetcher = fetcher;
    this.#fileCaps = fileCaps;
    this.#mayHaveFiles = plainCheck(model.input) === undefined;
    this.#isPlainOutput = plainCheck(model.output);
    this.#isPlainPart = model.part && plainCheck(model.part);
    // Without a limit, a million bad elements would make a million faults.
    for (const schema of [model.output, model.part, model.demo?.output]) if (schema) limitFaults(schema, MAX_FAULTS);
    this.declaredBytes = declaredBytes(model.tensors.inputs);
  }

  /** Bytes of the filled files of an input. */
  fileBytesOf(input: unknown): number {
    let bytes = 0;
    for (const file of this.#filesOf(input)) if (file.isFilled) bytes += file.bytes.length;
    return bytes;
  }

  /** The files of an input that must be fetched. */
  remoteFilesOf(input: unknown): readonly ModelFile[] {
    const files = this.#filesOf(input);
    return files.length === 0 ? files : files.filter(({ url = "data:", isFilled }) => !isFilled && !isDataUrl(url));
  }

  /**
   * Fetches the content of a file for `fill`.
   * @param charge is charged for each chunk, and waits for memory
   * @throws SconceError of the fetcher
   */
  fetch(file: ModelFile, signal: AbortSignal, charge?: FileCharge): Promise<FetchedFile> {
    file.restrict(this.#fileCaps);
    return this.#fetcher.fetch(file.url ?? "", { signal, maxBytes: file.limits.maxBytes, charge });
  }

  /**
   * Calls `preprocess` for an input with filled files. Returns a promise only for an asynchronous `preprocess`.
   * @param ending has the signal for the end of the prediction, created on demand
   * @throws SconceError of a data URI, or as `hookError`
   */
  prepare(input: unknown, ending: { readonly signal: AbortSignal }, place?: InputPlace): Tensors | Promise<Tensors> {
    for (const file of this.#filesOf(input)) {
      file.endsWith(() => ending.signal);
      if (file.isFilled) continue;
      file.restrict(this.#fileCaps);
      file.fill(this.#fetcher.decode(file.url ?? "", file.limits.maxBytes));
    }
    return this.#preprocess(input, place);
  }

  /** Counts the time after the first `await` as the hook's too. */
  async #awaited<T>(hook: HookName, given: Promise<T>): Promise<T> {
    try {
      return await given;
    } catch (error) {
      return this.#rethrow(hook, error);
    } finally {
      this.#hooks.ran(hook);
    }
  }

  #rethrow(name: HookName, error: unknown): never {
    const { inputs, outputs } = this.#model.tensors;
    throw hookError(error, { name, given: Object.keys(name === "postprocess" ? outputs : inputs) });
  }

  #filesOf(input: unknown): readonly ModelFile[] {
    return this.#mayHaveFiles ? filesOf(input) : noFiles;
  }

  #preprocess(input: unknown, place: InputPlace | undefined): Tensors | Promise<Tensors> {
    try {
      const tensors = this.#hooks.call("preprocess", () => this.#model.preprocess(input), place);
      return tensors instanceof Promise ? this.#awaited("preprocess", tensors) : tensors;
    } catch (error) {
      return this.#rethrow("preprocess", error);
    }
  }

  /**
   * Calls `postprocess` for the rows of an item. Parts that it yields go to `options.parts`.
   * @throws SconceError as `hookError`. A large output may throw `output_invalid`.
   */
  finish(rows: Rows, input: unknown, options: FinishOptions = {}): unknown {
    const { textForm, place } = options;
    try {
      const output = this.#hooks.call("postprocess", () => this.#model.postprocess(rows, { input }), place);
      if (output instanceof Promise) {
        const made = this.#awaited("postprocess", output).then((value) => this.#wholeOf(value, options));
        return textForm ? made.then((value) => this.#forText(value, textForm)) : made;
      }
      const made = this.#wholeOf(output, options);
      if (textForm === undefined) return made;
      return made instanceof Promise
        ? made.then((value) => this.#forText(value, textForm))
        : this.#forText(made, textForm);
    } catch (error) {
      return this.#rethrow("postprocess", error);
    }
  }

  /** The output of a `postprocess` that may have returned a generator. */
  #wholeOf(made: unknown, options: FinishOptions): unknown {
    return isInParts(made) ? this.#inParts(made, options) : made;
  }

  async #inParts(generator: InParts, { place, parts }: FinishOptions): Promise<unknown> {
    if (this.#model.part === undefined) {
      throw new SconceError("item_failed", `postprocess yields parts, but the model declares no part; ${partFix}`);
    }
    const turn = new Turn(MAX_HOLD_MS);
    let isDone = false;
    try {
      for (;;) {
        if (parts?.isOver) throw new SconceError("canceled", "the prediction has ended");
        const next = Promise.resolve(this.#hooks.call("postprocess", () => generator.next(), place));
        const { done = false, value } = await this.#awaited("postprocess", next);
        isDone = done;
        if (done) return value;
        const text = isLarge(value)
          ? await this.#largeText(() => this.#partWireOf(value))
          : JSON.stringify(this.#partWireOf(value));
        parts?.part(text);
        if (turn.isOver) await turn.next();
      }
    } finally {
      // Runs the author's `finally` blocks. Nobody needs their error.
      if (!isDone) await generator.return(undefined).catch(() => {});
    }
  }

  #partWireOf(part: unknown): unknown {
    const { part: schema } = this.#model;
    return schema === undefined || this.#isPlainPart?.(part) ? part : wireOf(schema, part, "part");
  }

  #forText(made: unknown, form: TextForm): unknown {
    return isLarge(made) ? this.#largeText(() => this.#wireOf(made, form)).then((text) => new OutputText(text)) : made;
  }

  /** Whether `finish` should wait, because many large outputs are becoming text. */
  get isBehind(): boolean {
    return this.#largeJson.isFull;
  }

  #largeText(wireOf: () => unknown): Promise<Encoded> {
    const { made, files } = withholding(wireOf);
    return this.#largeJson.text(made, files);
  }

  /**
   * @returns an output as JSON text
   * @throws SconceError `output_invalid` when it does not fit the declared output
   */
  encode(output: unknown, form = listForm): Encoded {
    return output instanceof OutputText ? output.text : JSON.stringify(this.#wireOf(output, form));
  }

  #wireOf(output: unknown, { byteFields } = listForm): unknown {
    if (this.#isPlainOutput?.(output)) return output;
    const encode = () => wireOf(this.#model.output, output, "output");
    if (byteFields.length === 0) return encode();
    const fields = isObject(output) ? byteFields.map((name) => output[name]) : [];
    // The output itself may be the array.
    return withBytesOf(new Set([output, ...fields]), encode);
  }

  /**
   * Runs the model's demo. A model without a demo has equal outputs and demo outputs.
   * @returns outputs and demo outputs as JSON texts, one for each input
   * @throws SconceError `output_invalid`, or as `hookError`
   */
  async demo(inputs: readonly unknown[], { take, onOutput, ...context }: DemoTools): Promise<DemoResult> {
    const { demo } = this.#model;
    const taken = (text: Encoded): Encoded => {
      take(typeof text === "string" ? Buffer.byteLength(text) : text.reduce((sum, { length }) => sum + length, 0));
      return text;
    };
    if (demo === undefined) {
      const outputs: Encoded[] = [];
      await context.predict(inputs, (index, output) => {
        const text = taken(this.encode(output));
        outputs[index] = text;
        onOutput?.(index, text);
      });
      return { outputs, demoOutputs: outputs };
    }
    this.#hooks.ran("demo");
    const given = await this.#awaited(
      "demo",
      Promise.try(() => demo.predict(inputs, context)),
    );
    const [outputs, demoOutputs] = [given?.outputs, given?.demoOutputs];
    for (const [name, list] of Object.entries({ outputs, demoOutputs })) {
      if (Array.isArray(list) && list.length === inputs.length) continue;
      const received = Array.isArray(list) ? String(list.length) : "none";
      throw new SconceError(
        "output_invalid",
        `the demo must give one of ${name} per input: ${inputs.length}, not ${received}`,
      );
    }
    const textsOf = async (values: readonly unknown[], wire: (value: unknown) => unknown): Promise<Encoded[]> => {
      const texts: Encoded[] = [];
      for (const value of values) {
        texts.push(taken(isLarge(value) ? await this.#largeText(() => wire(value)) : JSON.stringify(wire(value))));
      }
      return texts;
    };
    return {
      outputs: await textsOf(outputs, (output) => this.#wireOf(output)),
      demoOutputs: await textsOf(demoOutputs, (output) => wireOf(demo.output, output, "demo output")),
    };
  }
}

function declaredBytes(specs: TensorSpecs): number | undefined {
  let bytes = 0;
  for (const { dtype, dims } of Object.values(specs)) {
    const shape = fixedShape(dims);
    if (shape === undefined) return undefined;
    bytes += countOf(shape) * arrayTypes[dtype].BYTES_PER_ELEMENT;
  }
  return bytes;
}

function wireOf(schema: z.ZodType, value: unknown, name: string): unknown {
  const encoded = z.safeEncode(schema, value);
  if (encoded.success) return encoded.data;
  const issues = withoutUnions(encoded.error.issues);
  const faults = issues
    .slice(0, MAX_OUTPUT_FAULTS)
    .map((issue) => `${[name, ...issue.path].join(".")}: ${issue.message}`);
  if (issues.length > faults.length) faults.push(`and ${issues.length - faults.length} more`);
  throw new SconceError(
    "output_invalid",
    `the model's ${name} does not fit its declared ${name}: ${faults.join("; ")}`,
  );
}
