/** The two ends of an item's way that run on the JS thread: an input to tensors, and rows to an output. */
import type { Rows } from "../engine/engine.ts";
import { messageOf, SconceError } from "../errors.ts";
import type { Model } from "../model/define.ts";
import { type FileLimits, filesOf, type ModelFile } from "../model/file.ts";
import type { Tensor } from "../model/tensor.ts";
import * as z from "../model/z.ts";
import type { Fetcher } from "./fetcher.ts";

export type Tensors = Readonly<Record<string, Tensor>>;

/** What the server allows of one file, where that is less than what its field allows. */
export type FileCaps = Partial<Pick<FileLimits, "maxBytes" | "maxPixels">>;

export class ItemPipeline {
  readonly #model: Model;
  readonly #fetcher: Fetcher;
  readonly #fileCaps: FileCaps;

  constructor(model: Model, fetcher: Fetcher, fileCaps: FileCaps = {}) {
    this.#model = model;
    this.#fetcher = fetcher;
    this.#fileCaps = fileCaps;
  }

  /**
   * Fetches the input's files and lets the model make its tensors. Answers at once, without a promise, where there is nothing to wait for.
   * @param signal made only if it is needed; ends the fetching
   * @throws SconceError of the fetcher, or `item_failed` with the message of what the model threw
   */
  prepare(input: unknown, signal: () => AbortSignal): Tensors | Promise<Tensors> {
    const files = filesOf(input);
    if (files.length > 0) return this.#prepareWithFiles(input, files, signal());
    try {
      const tensors = this.#model.preprocess(input);
      return tensors instanceof Promise ? tensors.catch(rethrowAs("preprocess")) : tensors;
    } catch (error) {
      return rethrowAs("preprocess")(error);
    }
  }

  /**
   * Lets the model make the output of an item's rows and encodes it.
   * @returns the output as JSON text
   * @throws SconceError `output_invalid` when the output does not fit the declared one, `item_failed` when the model threw
   */
  finish(rows: Rows, input: unknown): string | Promise<string> {
    try {
      const output = this.#model.postprocess(rows, { input });
      if (output instanceof Promise) return output.catch(rethrowAs("postprocess")).then((value) => this.#encode(value));
      return this.#encode(output);
    } catch (error) {
      return rethrowAs("postprocess")(error);
    }
  }

  async #prepareWithFiles(input: unknown, files: readonly ModelFile[], signal: AbortSignal): Promise<Tensors> {
    await Promise.all(files.map((file) => this.#fill(file, signal)));
    return Promise.resolve(this.#model.preprocess(input)).catch(rethrowAs("preprocess"));
  }

  async #fill(file: ModelFile, signal: AbortSignal): Promise<void> {
    if (file.url === undefined || file.isFilled) return;
    file.restrict(this.#fileCaps);
    file.fill(await this.#fetcher.fetch(file.url, { signal, maxBytes: file.limits.maxBytes }));
  }

  #encode(output: unknown): string {
    const encoded = z.safeEncode(this.#model.output, output);
    if (encoded.success) return JSON.stringify(encoded.data);
    const faults = encoded.error.issues.map((issue) => `${["output", ...issue.path].join(".")}: ${issue.message}`);
    throw new SconceError(
      "output_invalid",
      `the model's output does not fit its declared output: ${faults.join("; ")}`,
    );
  }
}

/** What the model's own code throws is shown to the client, as its author's message for it; sconce's own errors stay what they are. */
function rethrowAs(step: "preprocess" | "postprocess"): (error: unknown) => never {
  return (error) => {
    if (error instanceof SconceError) throw error;
    throw new SconceError("item_failed", `${step} failed: ${messageOf(error)}`, { cause: error });
  };
}
