/** Buttons that fill the form with the example inputs of the model's author, if there are at least two. */
import { firstText, isFile, isPicture, type Value } from "./value.ts";

/** Maximum characters of a text on a button. */
const MAX_TEXT = 60;

interface ExamplesProps {
  readonly examples: readonly Value[];
  readonly onChoose: (example: Value) => void;
}

export function Examples({ examples, onChoose }: ExamplesProps) {
  if (examples.length < 2) return null;
  return (
    <fieldset class="row">
      <legend>Examples</legend>
      {examples.map((example, i) => {
        const picture = firstText(example, isPicture);
        return (
          <button type="button" class="small" key={i} onClick={() => onChoose(example)}>
            {picture !== undefined && <img src={picture} alt="" />}
            {firstText(example, (text) => !isFile(text))?.slice(0, MAX_TEXT) ?? `Example ${i + 1}`}
          </button>
        );
      })}
    </fieldset>
  );
}
