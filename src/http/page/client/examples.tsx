/** Buttons that fill the form with the example inputs of the model's author, if there are at least two. */
import { isPicture, pictureIn, plainIn, type Value } from "./value.ts";

interface ExamplesProps {
  readonly examples: readonly Value[];
  readonly onChoose: (example: Value) => void;
}

export function Examples({ examples, onChoose }: ExamplesProps) {
  if (examples.length < 2) return null;
  return (
    <fieldset class="examples">
      <legend>Examples</legend>
      {examples.map((example, i) => {
        const picture = pictureIn(example);
        return (
          <button type="button" class="small" key={i} onClick={() => onChoose(example)}>
            {picture !== undefined && isPicture(picture) && <img class="thumbnail" src={picture} alt="" />}
            <span class="summary">{plainIn(example) ?? `Example ${i + 1}`}</span>
          </button>
        );
      })}
    </fieldset>
  );
}
