/** Shows a list of objects as a table, if all have the same members and no member is a list or an object. */
import { alignedTexts, isList, isNumbers, isObject, type Json, type JsonObject, titleOf } from "./value.ts";

const MAX_ROWS = 200;

export function isTable(value: Json): value is readonly JsonObject[] {
  if (!isList(value) || !isObject(value[0])) return false;
  const names = Object.keys(value[0]).join();
  const isPlain = (each: Json) => each === null || typeof each !== "object";
  return value.every((row) => isObject(row) && Object.keys(row).join() === names && Object.values(row).every(isPlain));
}

export function Table({ rows, label }: { readonly rows: readonly JsonObject[]; readonly label: string }) {
  const columns = Object.keys(rows[0] ?? {}).map((name) => {
    const values = rows.slice(0, MAX_ROWS).map((row) => row[name] ?? "–");
    const isAmount = isNumbers(values);
    return { name, class: isAmount ? "amount" : "", texts: isAmount ? alignedTexts(values) : values.map(String) };
  });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys
    <section class="table" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" key={column.name} class={column.class}>
                {titleOf(column.name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((_, i) => (
            <tr key={i}>
              {columns.map((column) => (
                <td key={column.name} class={column.class}>
                  {column.texts[i]}
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
