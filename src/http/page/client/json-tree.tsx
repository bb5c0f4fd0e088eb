/** Shows JSON as a tree whose lists and objects can be collapsed. */
import type { JSX } from "preact";
import { isList, isObject, type Json } from "./value.ts";

const MAX_ITEMS = 100;
const MAX_TEXT = 200;

export function JsonTree({ value, name }: { readonly value: Json; readonly name?: string }): JSX.Element {
  const entries = isList(value) || isObject(value) ? Object.entries<Json>({ ...value }) : undefined;
  if (entries === undefined) {
    const text = JSON.stringify(value);
    return (
      <div class="leaf">
        {name !== undefined && <span class="name">{name}: </span>}
        {text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text}
      </div>
    );
  }
  return (
    <details class="tree" open={name === undefined && entries.length < 20}>
      <summary>
        {name !== undefined && <span class="name">{name}: </span>}
        {isList(value) ? `[${entries.length}]` : `{${entries.length}}`}
      </summary>
      {entries.slice(0, MAX_ITEMS).map(([key, each]) => (
        <JsonTree key={key} name={key} value={each} />
      ))}
      {entries.length > MAX_ITEMS && <div class="leaf">and {entries.length - MAX_ITEMS} more</div>}
    </details>
  );
}
