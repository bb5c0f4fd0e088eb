/** Faults of a model, which `build` or `check` finds. */
import type { TensorSpecs } from "../../author/tensor.ts";
import { codedError, SconceError } from "../../base/errors.ts";
import { type ExportMistake, mistakeIn } from "./export-mistakes.ts";

export interface Finding {
  /** Name of a known mistake at export; `types` for an error of the type check, `model` for any other fault. */
  readonly mistake: string;
  readonly error: SconceError;
  readonly python: string | undefined;
  /**
   * Effect of the mistake on `build`: the model is refused, refused without --allow-random (`unsteady`), or accepted
   * with a warning.
   */
  readonly effect: "refused" | "unsteady" | "warned";
}

/** Turns an error into a finding. @param inputs the declared inputs of the model */
export function findingOf(error: unknown, inputs: TensorSpecs = {}): Finding {
  const coded = codedError(error);
  return { ...found(coded, mistakeIn(coded.message), inputs), effect: "refused" };
}

function found(error: SconceError, mistake: ExportMistake | undefined, inputs: TensorSpecs) {
  return { mistake: mistake?.name ?? "model", error, python: mistake?.python(inputs) };
}

export class Findings {
  readonly #list: Finding[];
  readonly #inputs: TensorSpecs;

  constructor(list: Finding[], inputs: TensorSpecs) {
    this.#list = list;
    this.#inputs = inputs;
  }

  warn(mistake: ExportMistake | undefined, message: string): void {
    this.add(mistake, message, "warned");
  }

  add(mistake: ExportMistake | undefined, message: string, effect: Finding["effect"]): void {
    this.addError(new SconceError("model_invalid", message), mistake, effect);
  }

  addError(error: SconceError, mistake = mistakeIn(error.message), effect: Finding["effect"] = "refused"): void {
    this.#list.push({ ...found(error, mistake, this.#inputs), effect });
  }

  /** Replaces the warning of a mistake by a refusal. */
  refuse(mistake: ExportMistake, error: SconceError): void {
    const at = this.#list.findIndex((finding) => finding.mistake === mistake.name && finding.effect === "warned");
    if (at >= 0) this.#list.splice(at, 1, { ...found(error, mistake, this.#inputs), effect: "refused" });
  }

  has(mistakes: readonly ExportMistake[]): boolean {
    return this.#list.some(({ mistake }) => mistakes.some(({ name }) => name === mistake));
  }
}
