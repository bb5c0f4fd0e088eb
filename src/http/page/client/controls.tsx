/**
 * Controls of form fields for a text, a number, JSON, a boolean, and a choice from a list. The form sets the value of a control once. Another example
 * makes a new form.
 */
import { isJson, parsedJson } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { choicesOf } from "./schema.ts";
import type { Value } from "./value.ts";

export interface ControlProps {
  readonly schema: SchemaNode;
  readonly label: string;
  readonly value: Value;
  /** Whether the value may be left out, and has no default. */
  readonly isOptional?: boolean;
  readonly onChange: (value: Value) => void;
  /** HTML attributes that connect a control with its label, its description and its faults. */
  readonly attributes: {
    readonly id: string;
    readonly "aria-invalid"?: "true" | undefined;
    readonly "aria-describedby": string;
  };
}

export function TextControl({ value, onChange, isOptional, attributes }: ControlProps) {
  return (
    <textarea
      {...attributes}
      rows={1}
      defaultValue={typeof value === "string" ? value : ""}
      onInput={({ currentTarget: { value: text } }) => onChange(text === "" && isOptional ? undefined : text)}
    />
  );
}

/** The value of a typed text. A text that cannot be parsed stays a text, so that the server's answer explains the fault. */
function typedValue(text: string, parse: (text: string) => unknown): Value {
  const parsed = parse(text);
  if (text.trim() === "") return undefined;
  return isJson(parsed) && !Number.isNaN(parsed) ? parsed : text;
}

export function NumberControl({ value, onChange, attributes }: ControlProps) {
  return (
    <input
      {...attributes}
      inputMode="decimal"
      defaultValue={String(value ?? "")}
      onInput={(event) => onChange(typedValue(event.currentTarget.value, Number))}
    />
  );
}

/** A text area for JSON: lists, objects, arrays of numbers, and values that no other control can edit. */
export function JsonControl({ value, onChange, attributes }: ControlProps) {
  return (
    <textarea
      {...attributes}
      class="code"
      rows={3}
      spellcheck={false}
      defaultValue={typeof value === "string" ? value : JSON.stringify(value)}
      onInput={(event) => onChange(typedValue(event.currentTarget.value, parsedJson))}
    />
  );
}

export function SwitchControl({ value, onChange, isOptional, attributes }: ControlProps) {
  return (
    <input
      {...attributes}
      type="checkbox"
      defaultChecked={value === true}
      onChange={(event) => onChange(event.currentTarget.checked || (isOptional ? undefined : false))}
    />
  );
}

export function ChoiceControl({ value, onChange, schema, isOptional, attributes }: ControlProps) {
  const choices = choicesOf(schema);
  const chosen = choices.findIndex((choice) => choice.value === value);
  return (
    <select
      {...attributes}
      value={chosen}
      onChange={(event) => onChange(choices[Number(event.currentTarget.value)]?.value)}
    >
      {(isOptional || chosen < 0) && <option value={-1}>Choose …</option>}
      {choices.map(({ label }, i) => (
        <option key={label} value={i}>
          {label}
        </option>
      ))}
    </select>
  );
}
