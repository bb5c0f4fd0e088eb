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
  const low = values.reduce((least, value) => Math.min(least, value), 0);
  const high = values.reduce((most, value) => Math.max(most, value), 0);
  const y = (value: number) => (high > low ? HEIGHT - ((value - low) / (high - low)) * HEIGHT : HEIGHT);
  const x = (i: number) => ((i + 0.5) / values.length) * WIDTH;
  const text = `${values.length} numbers from ${numberText(Math.min(...values))} to ${numberText(Math.max(...values))}`;
  return (
    <figure class="plot">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
        <path class="axis" d={`M0 ${y(0)}H${WIDTH}`} />
        <path
          class="line"
          d={values.map((value, i) => `M${x(i).toFixed(1)} ${y(0).toFixed(1)}V${y(value).toFixed(1)}`).join("")}
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
