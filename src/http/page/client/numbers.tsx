/** Shows rows as a table, numbers as bars, and many numbers as a plot. */
import { alignedTexts, isNumbers, type JsonObject, numberText, titleOf } from "./value.ts";

interface TableProps {
  readonly rows: readonly JsonObject[];
  readonly label: string;
  /** Whether each number has a bar. The table then has no titles, and the row of the largest number stands out. */
  readonly hasBars?: boolean;
}

const MAX_ROWS = 200;

export function Table({ rows, label, hasBars = false }: TableProps) {
  const shown = rows.slice(0, MAX_ROWS);
  const columns = [...new Set(shown.flatMap(Object.keys))].map((name) => {
    const values = shown.map((row) => row[name] ?? "–");
    return isNumbers(values) ? { name, values, texts: alignedTexts(values) } : { name, texts: values.map(String) };
  });
  const numbers = columns.find(({ values }) => values !== undefined)?.values ?? [];
  const [low, high] = rangeOf(numbers);
  const bar = (value: number) => {
    const [left = 0, right = 0] = [Math.min(0, value), Math.max(0, value)].map((at) => (at - low) / (high - low || 1));
    return { left: `${100 * left}%`, width: `${Math.max(0.4, 100 * (right - left))}%` };
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys
    <section class={hasBars ? "bars" : "table"} tabIndex={0} aria-label={label}>
      <table>
        <thead hidden={hasBars}>
          <tr>
            {columns.map(({ name, values }) => (
              <th scope="col" key={name} class={values && "amount"}>
                {titleOf(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((_, i) => (
            <tr key={i} class={hasBars && numbers[i] === Math.max(...numbers) ? "most" : ""}>
              {columns.map(({ name, values, texts }) => [
                hasBars && values && (
                  <td key="track" class="track">
                    <span class="bar" style={bar(values[i] ?? 0)} />
                  </td>
                ),
                <td key={name} class={values && "amount"}>
                  {texts[i]}
                </td>,
              ])}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && <p class="about">and {rows.length - MAX_ROWS} more rows</p>}
    </section>
  );
}

/** The least and the most of the values and 0. */
function rangeOf(values: readonly number[]): readonly [least: number, most: number] {
  return [values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0)];
}

/** Maximum number of lines in a plot. For a longer list, the plot has every second number, or every third, and so on. */
const MAX_LINES = 1200;

export function Plot({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const [first = 0] = values;
  const [least, most] = rangeOf(values.map((value) => value - first)).map((each) => numberText(each + first));
  const [low, high] = rangeOf(values);
  const step = Math.ceil(values.length / MAX_LINES);
  const lines = values.filter((_, i) => i % step === 0).map((value, i) => `M${i + 0.5} 0V${-value}`);
  return (
    <div class="plot">
      <svg
        viewBox={`0 ${-high} ${lines.length} ${high - low || 1}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <path d={lines.join("")} />
      </svg>
      <details>
        <summary>
          {values.length} numbers from {least} to {most}
        </summary>
        <pre>{values.map(numberText).join(", ")}</pre>
      </details>
    </div>
  );
}
