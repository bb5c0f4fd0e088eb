/** Shows a few numbers as bars. */
import { numberText } from "./value.ts";

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
