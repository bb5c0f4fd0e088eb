/** Form fields for a text, a number, a boolean, and a choice from a list. */
import { useState } from "preact/hooks";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { controlOf, type FieldProps, Labelled } from "./labelled.tsx";
import { type Choice, isRange } from "./schema.ts";

/** Maximum length of texts that get a field of one line. Texts with a format or a pattern always get one. */
const LINE_LENGTH = 120;

export function TextField({ value, onChange, ...at }: FieldProps) {
  const { format, pattern, limits } = at.schema;
  const { maxLength = Number.POSITIVE_INFINITY } = limits;
  const text = typeof value === "string" ? value : "";
  const control = { ...controlOf(at), value: text };
  return (
    <Labelled {...at}>
      {maxLength <= LINE_LENGTH || format !== undefined || pattern !== undefined ? (
        <input {...control} type="text" onInput={(event) => onChange(event.currentTarget.value)} />
      ) : (
        <textarea {...control} rows={3} onInput={(event) => onChange(event.currentTarget.value)} />
      )}
    </Labelled>
  );
}

export function NumberField({ value, onChange, ...at }: FieldProps) {
  const { minimum: min, maximum: max } = at.schema.limits;
  const [draft, setDraft] = useState<string>();
  const shown = draft ?? (value === undefined ? "" : String(value));
  // Text that is no number stays a string, so that the server's answer explains the fault.
  const change = (text: string) => {
    setDraft(text);
    const number = Number(text);
    onChange(text.trim() === "" ? undefined : Number.isNaN(number) ? text : number);
  };
  const hasRange = isRange(at.schema);
  return (
    <Labelled {...at}>
      <div class="number">
        <input
          {...controlOf(at)}
          type="text"
          inputMode={min === undefined || min < 0 ? "text" : "decimal"}
          autocomplete="off"
          value={shown}
          onInput={(event) => change(event.currentTarget.value)}
          onBlur={() => setDraft(undefined)}
        />
        {hasRange && min !== undefined && max !== undefined && (
          <input
            type="range"
            aria-label={`${at.label}, as a slider`}
            {...{ min, max, step: stepOf(at.schema, max - min) }}
            value={typeof value === "number" ? value : min}
            onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
          />
        )}
      </div>
    </Labelled>
  );
}

function stepOf({ types, limits }: SchemaNode, range: number): number {
  return limits.multipleOf ?? (types.has("integer") ? 1 : 10 ** Math.floor(Math.log10(range / 100 || 1)));
}

export function SwitchField({ value, onChange, ...at }: FieldProps) {
  return (
    <Labelled {...at}>
      <input
        {...controlOf(at)}
        type="checkbox"
        role="switch"
        checked={value === true}
        aria-checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </Labelled>
  );
}

export function ChoiceField({ value, onChange, choices, ...at }: FieldProps & { readonly choices: readonly Choice[] }) {
  const chosen = choices.findIndex((choice) => choice.value === value);
  return (
    <Labelled {...at}>
      <select
        {...controlOf(at)}
        value={String(chosen)}
        onChange={(event) => onChange(choices[Number(event.currentTarget.value)]?.value)}
      >
        {chosen < 0 && <option value="-1">Choose …</option>}
        {choices.map(({ label }, i) => (
          <option key={label} value={String(i)}>
            {label}
          </option>
        ))}
      </select>
    </Labelled>
  );
}
