/** Finds mistakes in the batch sizes that weights files state. */
import { SconceError } from "../../base/errors.ts";
import { exportMistakes } from "./export-mistakes.ts";
import type { Findings } from "./finding.ts";
import { type FixedBatch, fixedBatchText } from "./plain/tensor-input.ts";
import type { SourceModel } from "./source-model.ts";
import { FREE_LEAST, weightsFacts } from "./weights-facts.ts";

export class StatedRows {
  readonly #source: Pick<SourceModel, "model" | "pathOf" | "declaredBatchSize">;
  readonly #findings: Findings;
  readonly #chosenRows: number | undefined;
  #fixed: FixedBatch | undefined;

  /** @param chosenRows fixed batch size of a weights file; used only if the file does not state it, so from --input */
  constructor(
    source: Pick<SourceModel, "model" | "pathOf" | "declaredBatchSize">,
    findings: Findings,
    chosenRows: number | undefined,
  ) {
    this.#source = source;
    this.#findings = findings;
    this.#chosenRows = chosenRows;
  }

  /**
   * Warns about weights with a fixed batch size, or with a smallest batch size above 2. Reads the files, without a run.
   * The model's own `predict` or `begin` chooses the batches of its calls, so it gets no warning.
   */
  warn(): void {
    const { model, pathOf } = this.#source;
    const facts = weightsFacts(model, pathOf);
    for (const { file, inputs, isCompiled } of model.predict === undefined ? facts : []) {
      const rows = inputs[0]?.sizes[0];
      if (typeof rows === "number") this.#warnOfFixed({ file, rows, isChosen: false });
      else if (isCompiled && rows !== undefined && rows.min > FREE_LEAST) {
        const message = `${file} was compiled for batches of at least ${rows.min}: smaller batches are filled up, and cost as much`;
        this.#findings.warn(exportMistakes.fixedBatch, message);
      }
    }
    const rows = this.#chosenRows;
    if (facts.length === 0 && rows !== undefined && model.predict === undefined)
      this.#warnOfFixed({ file: Object.values(model.weights)[0] ?? "", rows, isChosen: true });
  }

  #warnOfFixed(fixed: FixedBatch): void {
    this.#fixed ??= fixed;
    const { rows } = fixed;
    // The author of a model.ts knows the declared size, as of a detector that takes one picture.
    if (this.#chosenRows === undefined && this.#source.declaredBatchSize === rows) return;
    const cost = rows === 1 ? "items run one at a time" : `smaller batches are filled up to ${rows}, and cost as much`;
    this.#findings.warn(exportMistakes.fixedBatch, `${fixedBatchText(fixed)}; until then ${cost}`);
  }

  /**
   * Turns the warning about a fixed batch size into an error that refuses the model.
   * @param why end of the error's message
   * @returns false if the batch size is not fixed
   */
  refuse(why: (rows: number) => string): boolean {
    if (this.#fixed === undefined) return false;
    const message = fixedBatchText(this.#fixed) + why(this.#fixed.rows);
    this.#findings.refuse(exportMistakes.fixedBatch, new SconceError("weights_invalid", message));
    return true;
  }
}
