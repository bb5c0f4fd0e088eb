/** Charts of numbers: bars for short lists and named scores, and a plot with a thin line for each number for long lists. */
import { alignedTexts, numberText } from "./value.ts";

interface BarsProps {
  readonly entries: readonly (readonly [name: string | number, value: number])[];
  readonly label: string;
}

export function Bars({ entries, label }: BarsProps) {
  const values = entries.map(([, value]) => value);
  const texts = alignedTexts(values);
  const most = Math.max(...values);
  const share = shareIn(Math.min(0, ...values), Math.max(0, most));
  return (
    <table class="bars" aria-label={label}>
      <tbody>
        {entries.map(([name, value], i) => {
          const [left, right] = [share(Math.min(0, value)), share(Math.max(0, value))];
          const place = { left: `${100 * left}%`, width: `${Math.max(0.4, 100 * (right - left))}%` };
          return (
            <tr key={name} class={value === most ? "most" : ""}>
              <th scope="row">{name}</th>
              <td class="track">
                <span class="bar" style={place} />
              </td>
              <td class="amount">{texts[i]}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** Where a value lies between two others, from 0 to 1. */
function shareIn(low: number, high: number): (value: number) => number {
  return (value) => (high > low ? (value - low) / (high - low) : 0);
}

const [WIDTH, HEIGHT] = [600, 120];
/** Maximum number of lines in a plot: two for each unit of its width. */
const MAX_LINES = 2 * WIDTH;

export function Plot({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const [first = 0] = values;
  const least = values.reduce((before, value) => Math.min(before, value), first);
  const most = values.reduce((before, value) => Math.max(before, value), first);
  const text = `${values.length} numbers from ${numberText(least)} to ${numberText(most)}`;
  const share = shareIn(Math.min(0, least), Math.max(0, most));
  const y = (value: number) => (HEIGHT * (1 - share(value))).toFixed(1);
  // A long list has one line for several numbers, from their least to their most.
  const step = Math.ceil(values.length / MAX_LINES);
  const lines = Array.from({ length: Math.ceil(values.length / step) }, (_, i) => {
    const column = values.slice(i * step, (i + 1) * step);
    const x = (((i * step + 0.5) / values.length) * WIDTH).toFixed(1);
    return `M${x} ${y(Math.min(0, ...column))}V${y(Math.max(0, ...column))}`;
  });
  return (
    <figure class="plot">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
        <path class="axis" d={`M0 ${y(0)}H${WIDTH}`} />
        <path class="line" d={lines.join("")} />
      </svg>
      <figcaption>{text}</figcaption>
      <details>
        <summary>All numbers</summary>
        <pre>{values.map(numberText).join(", ")}</pre>
      </details>
    </figure>
  );
}
