/** Charts of numbers: bars for short lists and named scores, and a plot with a thin line for each number for long lists. */
import { alignedTexts, numberText } from "./value.ts";

interface BarsProps {
  readonly entries: readonly (readonly [name: string | number, value: number])[];
  readonly label: string;
}

export function Bars({ entries, label }: BarsProps) {
  const values = entries.map(([, value]) => value);
  const most = Math.max(...values);
  const texts = alignedTexts(values);
  const [low, high] = [Math.min(0, ...values), Math.max(0, most)];
  const share = (value: number) => (high > low ? ((value - low) / (high - low)) * 100 : 0);
  return (
    <table class="bars" aria-label={label}>
      <tbody>
        {entries.map(([name, value], i) => (
          <tr key={name} class={value === most ? "most" : ""}>
            <th scope="row">{name}</th>
            <td class="track">
              <span
                class="bar"
                style={{
                  left: `${share(Math.min(0, value))}%`,
                  width: `${Math.max(0.4, Math.abs(share(value) - share(0)))}%`,
                }}
              />
            </td>
            <td class="amount">{texts[i]}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const [WIDTH, HEIGHT] = [600, 120];

export function Plot({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const [first = 0] = values;
  const least = values.reduce((before, value) => Math.min(before, value), first);
  const most = values.reduce((before, value) => Math.max(before, value), first);
  const text = `${values.length} numbers from ${numberText(least)} to ${numberText(most)}`;
  const [low, high] = [Math.min(0, least), Math.max(0, most)];
  const y = (value: number) => (high > low ? HEIGHT - ((value - low) / (high - low)) * HEIGHT : HEIGHT);
  const x = (i: number) => ((i + 0.5) / values.length) * WIDTH;
  return (
    <figure class="plot">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
        <path class="axis" d={`M0 ${y(0)}H${WIDTH}`} />
        <path
          class="line"
          d={columnsOf(values)
            .map(([at, least, most]) => `M${x(at).toFixed(1)} ${y(least).toFixed(1)}V${y(most).toFixed(1)}`)
            .join("")}
        />
      </svg>
      <figcaption>{text}</figcaption>
      <details>
        <summary>All numbers</summary>
        <pre>{values.map(numberText).join(", ")}</pre>
      </details>
    </figure>
  );
}

/** Maximum number of lines in a plot: two for each unit of its width. */
const MAX_LINES = 2 * WIDTH;

/** The lines of a plot: for each, the index of its first number, and its least and most number with 0. A long list has one line for several numbers. */
function columnsOf(values: readonly number[]): (readonly [at: number, least: number, most: number])[] {
  const width = Math.max(1, Math.ceil(values.length / MAX_LINES));
  return Array.from({ length: Math.ceil(values.length / width) }, (_, i) => {
    const column = values.slice(i * width, (i + 1) * width);
    return [i * width, Math.min(0, ...column), Math.max(0, ...column)];
  });
}
