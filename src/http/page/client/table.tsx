/** Shows rows as a table, and a few numbers as bars. */
import type { JsonObject } from "../../../base/json.ts";
import { numberText, titleOf } from "./value.ts";

const MAX_ROWS = 200;

export function Table({ rows, label }: { readonly rows: readonly JsonObject[]; readonly label: string }) {
  const shown = rows.slice(0, MAX_ROWS);
  const names = [...new Set(shown.flatMap(Object.keys))];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys
    <section class="table" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th scope="col" key={name}>
                {titleOf(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row, i) => (
            <tr key={i}>
              {names.map((name) => {
                const value = row[name] ?? "–";
                return <td key={name}>{typeof value === "number" ? numberText(value) : String(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && <small>and {rows.length - MAX_ROWS} more rows</small>}
    </section>
  );
}

/** Numbers by name, each with a bar from 0. The largest one stands out. Shares that add up to 1 become percentages. */
export function Bars({ values }: { readonly values: readonly (readonly [name: string, value: number])[] }) {
  const most = Math.max(...values.map(([, value]) => value));
  const sum = values.reduce((all, [, value]) => all + value, 0);
  const isShares = values.every(([, value]) => value >= 0) && Math.abs(sum - 1) < 0.01;
  return (
    <table class="bars">
      <tbody>
        {values.map(([name, value]) => (
          <tr key={name} class={value === most ? "most" : ""}>
            <td>{name}</td>
            <td>
              <div class="bar" style={{ width: most > 0 ? `${(100 * Math.max(0, value)) / most}%` : "0" }} />
            </td>
            <td>{isShares ? `${(100 * value).toFixed(1)} %` : numberText(value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
