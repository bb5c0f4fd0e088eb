/** Shows the input's picture on top of the output's picture. A slider sets how much of each is visible. */
import { useState } from "preact/hooks";
import { FileFacts, Picture } from "./media.tsx";

interface CompareProps {
  readonly before: string;
  readonly after: string;
  readonly label: string;
}

export function Compare({ before, after, label }: CompareProps) {
  const [percent, setPercent] = useState(50);
  const [dimensions, setDimensions] = useState<string>();
  return (
    <figure class="compare">
      <div class="layers">
        <Picture url={after} label={label} onShown={setDimensions} />
        <div class="layer" style={{ clipPath: `inset(0 ${100 - percent}% 0 0)` }}>
          <Picture url={before} label="The input" />
        </div>
        <div class="divider" style={{ left: `${percent}%` }} />
        <input
          type="range"
          min={0}
          max={100}
          value={percent}
          aria-label={`How much of the input is seen over ${label}`}
          onInput={(event) => setPercent(event.currentTarget.valueAsNumber)}
        />
      </div>
      <figcaption>
        <span>Input</span>
        <span>Output</span>
      </figcaption>
      <FileFacts url={after} dimensions={dimensions} />
    </figure>
  );
}
