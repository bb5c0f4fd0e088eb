/** Shows a list of objects as a table, if all have the same members and no member is a list or an object. */
import { alignedTexts, isList, isNumbers, isObject, type Json, type JsonObject, numberText, titleOf } from "./value.ts";

const MAX_ROWS = 200;

export function isTable(value: Json): value is readonly JsonObject[] {
  if (!isList(value) || value.length === 0) return false;
  const [first] = value;
  const names = isObject(first) ? Object.keys(first).join() : "";
  const isPlain = (each: Json) => each === null || typeof each !== "object";
  return (
    names !== "" &&
    value.every((row) => isObject(row) && Object.keys(row).join() === names && Object.values(row).every(isPlain))
  );
}

export function Table({ rows, label }: { readonly rows: readonly JsonObject[]; readonly label: string }) {
  const names = Object.keys(rows[0] ?? {});
  /** The formatted numbers of columns that have only numbers. */
  const columns = new Map(
    names.flatMap((name) => {
      const values = rows.slice(0, MAX_ROWS).map((row) => row[name]);
      return isNumbers(values) ? [[name, alignedTexts(values)] as const] : [];
    }),
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys
    <section class="table" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th scope="col" key={name} class={columns.has(name) ? "amount" : undefined}>
                {titleOf(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((row, i) => (
            <tr key={i}>
              {names.map((name) => (
                <td key={name} class={columns.has(name) ? "amount" : undefined}>
                  {columns.get(name)?.[i] ?? cellOf(row[name] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && <p class="about">and {rows.length - MAX_ROWS} more rows</p>}
    </section>
  );
}

function cellOf(value: Json): string {
  if (typeof value === "number") return numberText(value);
  return value === null ? "–" : String(value);
}
