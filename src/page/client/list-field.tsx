/** A list, of which each item is a field. */
import type { SchemaNode } from "../../json-schema.ts";
import { Faults, Field, type FieldProps } from "./field.tsx";
import { initialOf } from "./schema.ts";
import { isList } from "./value.ts";

export function ListField({ value, onChange, items, ...at }: FieldProps & { readonly items: SchemaNode }) {
  const list = isList(value) ? value : [];
  const id = `field${at.pointer}`;
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, description } = at.schema;
  return (
    <fieldset class="nested" id={id}>
      <legend>{at.label}</legend>
      {description && <p class="about">{description}</p>}
      {list.map((item, i) => (
        <div class="member" key={i}>
          <Field
            schema={items}
            label={`${at.label} ${i + 1}`}
            pointer={`${at.pointer}/${i}`}
            value={item}
            faults={at.faults}
            onChange={(changed) => onChange(list.with(i, changed ?? ""))}
          />
          {list.length > minItems && (
            <button
              type="button"
              class="quiet leave-out"
              aria-label={`Remove ${at.label} ${i + 1}`}
              title="Remove"
              onClick={() => onChange(list.toSpliced(i, 1))}
            >
              ×
            </button>
          )}
        </div>
      ))}
      <Faults id={id} pointer={at.pointer} faults={at.faults.filter(({ pointer }) => pointer === at.pointer)} />
      {list.length < maxItems && (
        <button type="button" class="chip add" onClick={() => onChange([...list, initialOf(items) ?? ""])}>
          + Add
        </button>
      )}
    </fieldset>
  );
}
