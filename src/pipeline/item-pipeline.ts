/**
 * Calls the model's code for an item: `preprocess` from an input to tensors, `postprocess` from output rows to an
 * output, and the demo.
 */

import { decodeDataUrl, isDataUrl } from "../author/data-url.ts";
import type { DemoContext, OpenedModel } from "../author/define.ts";
import { filesOf, type ModelFile } from "../author/file.ts";
import type { HookCaller } from "../author/hook-context.ts";
import { drained, type InParts, isInParts, partFix } from "../author/parts.ts";
import { arrayTypes, countOf, fixedShape, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import { SconceError } from "../base/errors.ts";
import { plainCheck } from "../base/schemas/plain-check.ts";
import { hookError } from "../engine/hook-fault.ts";
import type { Rows } from "../engine/rows.ts";
import type { FetchedFile, Fetcher } from "./fetcher.ts";
import type { InputPlace } from "./hooks.ts";
import { Hooks } from "./hooks.ts";
import type { FileMemory } from "./memory/file-memory.ts";
import { type Encoded, OutputEncoder, type TextForm } from "./output-encoder.ts";

export type Tensors = Readonly<Record<string, Tensor>>;

type HookName = "preprocess" | "postprocessPart" | "postprocess" | "demo";

const noFiles: readonly ModelFile[] = [];

/** An input on its way through the hooks. */
export interface InputCall extends HookCaller, InputPlace {
  readonly input: unknown;
  /** If set, a large output becomes JSON text of this form, in several turns of the event loop. */
  readonly textForm?: TextForm | undefined;
  /** Whether nobody needs the output any more. A generator of `postprocess` then stops at its next `yield`. */
  readonly isOver?: boolean;
  /** Receives a part of the output. */
  part?(text: Encoded): void;
}

export interface PartsReceiver {
  add(index: number, text: Encoded): void;
  /** Notes that the engine runs an input again, so the parts of the first run are void. */
  restart(index: number): void;
}

export class ItemPipeline {
  readonly #model: OpenedModel;
  readonly #fetcher: Fetcher;
  readonly #hooks: Hooks;
  /** Whether an input may contain files. Plain JSON inputs need no search. */
  readonly #mayHaveFiles: boolean;
  readonly encoder: OutputEncoder;
  /** Bytes of an item's tensors, if all declared sizes are fixed; otherwise undefined. */
  readonly declaredBytes: number | undefined;

  constructor(model: OpenedModel, fetcher: Fetcher, hooks = new Hooks()) {
    this.#hooks = hooks;
    this.#model = model;
    this.#fetcher = fetcher;
    this.#mayHaveFiles = plainCheck(model.input) === undefined;
    this.encoder = new OutputEncoder(model);
    this.declaredBytes = declaredBytes(model.tensors.inputs);
  }

  /** Whether the model declares parts of outputs. */
  get hasParts(): boolean {
    return this.#model.part !== undefined;
  }

  /** Bytes of the files of an input, without files that the server has not read. */
  fileBytesOf(input: unknown): number {
    let bytes = 0;
    for (const file of this.#filesOf(input)) if (file.isFilled) bytes += file.bytes.length;
    return bytes;
  }

  /** Total milliseconds for which the input's files waited during decoding. */
  waitedMsOf(input: unknown): number {
    return this.#filesOf(input).reduce((sum, { waitedMs }) => sum + waitedMs, 0);
  }

  /** The files of an input that must be fetched by URL. */
  remoteFilesOf(input: unknown): readonly ModelFile[] {
    const files = this.#filesOf(input);
    return files.length === 0 ? files : files.filter(({ url = "data:", isFilled }) => !isFilled && !isDataUrl(url));
  }

  /**
   * Fetches the content of a file, but does not fill the file.
   * @param memory gives memory before the bytes are read
   * @throws SconceError of the fetcher
   */
  fetch(file: ModelFile, signal: AbortSignal, memory?: FileMemory): Promise<FetchedFile> {
    return this.#fetcher.fetch(file.url ?? "", { signal, maxBytes: file.limits.maxBytes, memory });
  }

  /**
   * Decodes the data URIs of an input, and calls `preprocess`. Remote files must have their content. Returns a promise
   * if `preprocess` is asynchronous.
   * @param call has a signal for the end of the prediction, created on demand
   * @throws SconceError of a data URI, or an error of `preprocess` as a SconceError
   */
  prepare(call: InputCall): Tensors | Promise<Tensors> {
    const { input } = call;
    if (this.#mayHaveFiles) this.#fill(filesOf(input), call);
    try {
      this.#hooks.begin("preprocess", call);
      const tensors = this.#model.preprocess(input, call);
      return tensors instanceof Promise ? this.#awaited("preprocess", tensors) : tensors;
    } catch (error) {
      throw hookError(error, "preprocess");
    } finally {
      this.#hooks.end();
    }
  }

  #fill(files: readonly ModelFile[], call: InputCall): void {
    for (const file of files) {
      file.belongsTo(this.#model, () => call.fileSignal ?? call.signal);
      if (!file.isFilled) file.fill(decodeDataUrl(file.url ?? "", file.limits.maxBytes));
    }
  }

  /**
   * Awaits a hook's promise. Then tells the event-loop monitor that the hook has just run, because code after an
   * `await` may block the thread too.
   */
  async #awaited<T>(hook: HookName, given: Promise<T>): Promise<T> {
    try {
      return await given;
    } catch (error) {
      throw hookError(error, hook);
    } finally {
      this.#hooks.ran(hook === "postprocessPart" ? "postprocess" : hook);
    }
  }

  #filesOf(input: unknown): readonly ModelFile[] {
    return this.#mayHaveFiles ? filesOf(input) : noFiles;
  }

  /**
   * Calls `postprocess` for the rows of an item. The call gets the yielded parts.
   * @returns the output or a promise of it; with a text form, a large output as JSON text
   * @throws SconceError for an error of `postprocess`; a large output may throw `output_invalid`
   */
  finish(rows: Rows, call: InputCall): unknown {
    try {
      const output = this.#postprocessed(rows, call);
      const isLate = output instanceof Promise || isInParts(output);
      if (isLate) return this.#finishLater(output, call);
      return call.textForm === undefined ? output : this.encoder.forText(output, call.textForm);
    } catch (error) {
      throw hookError(error, "postprocess");
    }
  }

  #postprocessed(rows: Rows, call: InputCall): unknown {
    this.#hooks.begin("postprocess", call);
    try {
      return this.#model.postprocess(rows, { input: call.input, caller: call });
    } finally {
      this.#hooks.end();
    }
  }

  async #finishLater(output: unknown, call: InputCall): Promise<unknown> {
    const value = output instanceof Promise ? await this.#awaited("postprocess", output) : output;
    const made = isInParts(value) ? await this.#inParts(value, call) : value;
    return call.textForm === undefined ? made : this.encoder.forText(made, call.textForm);
  }

  async #inParts(generator: InParts, call: InputCall): Promise<unknown> {
    if (this.#model.part === undefined) {
      const message = `postprocess yields parts, but the model declares no part; ${partFix}`;
      throw hookError(new SconceError("item_failed", message), "postprocess");
    }
    return drained(generator, {
      isOver: () => call.isOver ?? false,
      ended: "the prediction has ended",
      next: () => this.#awaited("postprocess", Promise.resolve(this.#called(() => generator.next(), call))),
      part: async (value) => call.part?.(await this.encoder.encodeAs("part", value)),
    });
  }

  /**
   * Calls `postprocessPart` for rows that `predict` yielded or `step` returned.
   * @param sequence count of earlier parts of the output
   * @returns the part as JSON text; undefined if these rows make no part
   * @throws SconceError `output_invalid`, or `item_failed` with the message of the model's error
   */
  async part(rows: Rows, call: InputCall, sequence: number): Promise<Encoded | undefined> {
    const { part: schema, predict, postprocessPart } = this.#model;
    if (schema === undefined || postprocessPart === undefined) {
      const fix = schema === undefined ? partFix : "write postprocessPart, which turns the rows of an item into a part";
      const given = typeof predict === "object" ? "step returns a part" : "predict yields rows";
      const message = `${given}, but the model has no ${schema === undefined ? "part" : "postprocessPart"}; ${fix}`;
      throw hookError(new SconceError("item_failed", message), "postprocessPart");
    }
    const facts = { input: call.input, sequence, caller: call };
    const part = await this.#awaited(
      "postprocessPart",
      Promise.try(() => this.#called(() => postprocessPart(rows, facts), call)),
    );
    return part === undefined ? undefined : this.encoder.encodeAs("part", part);
  }

  #called<T>(run: () => T, call: InputCall): T {
    this.#hooks.begin("postprocess", call);
    try {
      return run();
    } finally {
      this.#hooks.end();
    }
  }

  /** Whether the model has a `demo` function. */
  get hasDemo(): boolean {
    return this.#model.demo !== undefined;
  }

  /** Calls the author's `demo` function. @returns its result, unchecked @throws SconceError for an error of the demo */
  demo(inputs: readonly unknown[], context: Pick<DemoContext, "predict" | "log" | "signal">): Promise<unknown> {
    this.#hooks.ran("demo");
    return this.#awaited(
      "demo",
      Promise.try(() => this.#model.demo?.predict(inputs, context)),
    );
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
