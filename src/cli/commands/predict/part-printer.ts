/**
 * Prints the parts of an output to standard error as they come. Texts continue a line; each other part is a line of
 * JSON.
 */
import { isLogJson, log } from "../../../base/log.ts";
import type { PartsReceiver } from "../../../pipeline/item-pipeline.ts";
import { type Encoded, wholeText } from "../../../pipeline/output-encoder.ts";
import { shorten } from "./output-files.ts";

export class PartPrinter implements PartsReceiver, Disposable {
  /** Whether a text has started a line that is not ended yet. */
  #isLineOpen = false;

  add(_index: number, text: Encoded): void {
    const { output: part } = shorten(JSON.parse(wholeText(text)));
    if (isLogJson()) log.info(JSON.stringify(part));
    else if (typeof part === "string") this.#write(part);
    else {
      this.#endLine();
      this.#write(`${JSON.stringify(part)}\n`);
    }
  }

  restart(): void {
    this.#endLine();
    log.info("The output starts over, after an error of the batch");
  }

  [Symbol.dispose](): void {
    this.#endLine();
  }

  #endLine(): void {
    if (this.#isLineOpen) this.#write("\n");
  }

  #write(text: string): void {
    process.stderr.write(text);
    if (text !== "") this.#isLineOpen = !text.endsWith("\n");
  }
}
