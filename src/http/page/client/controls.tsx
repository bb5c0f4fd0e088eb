/** Controls of form fields for a text, a number, JSON, a boolean, and a choice from a list. */
import { useState } from "preact/hooks";
import { isJson, parsedJson } from "../../../base/json.ts";
import { listsOfNpy } from "../../../base/npy.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { ChooseFile } from "./choose-file.tsx";
import { choicesOf, isRange } from "./schema.ts";
import type { Value } from "./value.ts";

export interface ControlProps {
  readonly schema: SchemaNode;
  readonly label: string;
  readonly value: Value;
  /** Whether the value may be left out, and has no default. */
  readonly isOptional?: boolean;
  readonly onChange: (value: Value) => void;
  /** HTML attributes that connect a control with its label, its description and its faults. */
  readonly attributes: { readonly id: string; readonly "aria-invalid": boolean; readonly "aria-describedby": string };
}

export function TextControl({ value, onChange, isOptional, attributes }: ControlProps) {
  return (
    <textarea
      {...attributes}
      rows={1}
      value={typeof value === "string" ? value : ""}
      onInput={({ currentTarget: { value: text } }) => onChange(text === "" && isOptional ? undefined : text)}
    />
  );
}

/** The text of a value in a control. A typed text stays as it is: formatting its value again would change `1.` to `1`. */
function useText({ value, onChange }: Pick<ControlProps, "value" | "onChange">, parse: (text: string) => Value) {
  const [typed, setTyped] = useState<{ readonly value: Value; readonly text: string }>();
  const formatted = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return {
    value: typed !== undefined && typed.value === value ? typed.text : formatted,
    onInput({ currentTarget: { value: text } }: { readonly currentTarget: { readonly value: string } }) {
      // Text that cannot be parsed stays a string, so that the server's answer explains the fault.
      const parsed = text.trim() === "" ? undefined : parse(text);
      setTyped({ value: parsed, text });
      onChange(parsed);
    },
  };
}

export function NumberControl({ schema, label, attributes, ...given }: ControlProps) {
  const { minimum: min = 0, maximum: max = 1, multipleOf = schema.types.has("integer") ? 1 : "any" } = schema.limits;
  const text = useText(given, (text) => (Number.isNaN(Number(text)) ? text : Number(text)));
  return (
    <div class="number">
      <input {...attributes} {...text} type="text" />
      {isRange(schema) && (
        <input
          type="range"
          aria-label={`${label}, as a slider`}
          {...{ min, max, step: multipleOf }}
          value={typeof given.value === "number" ? given.value : min}
          onInput={(event) => given.onChange(Number(event.currentTarget.valueAsNumber.toPrecision(3)))}
        />
      )}
    </div>
  );
}

/** A text area for JSON: arrays of numbers, which may come from a file, and values that no other control can edit. */
export function JsonControl({ label, attributes, ...given }: ControlProps) {
  const [problem, setProblem] = useState("");
  const text = useText(given, (text) => {
    const parsed = parsedJson(text);
    return isJson(parsed) ? parsed : text;
  });
  const take = async (file: File) => {
    try {
      given.onChange(listsOfNpy(new Uint8Array(await file.arrayBuffer())) ?? JSON.parse(await file.text()));
      setProblem("");
    } catch (error) {
      setProblem(`The file is neither JSON nor .npy: ${error instanceof Error ? error.message : error}.`);
    }
  };
  return (
    <div class="drop stack close">
      <textarea {...attributes} {...text} class="code" rows={3} spellcheck={false} />
      <ChooseFile label={`${label}: read a file`} onChoose={take}>
        Read a .npy or .json file
      </ChooseFile>
      <p class="faults" role="status">
        {problem}
      </p>
    </div>
  );
}

export function SwitchControl({ value, onChange, isOptional, attributes }: ControlProps) {
  return (
    <input
      {...attributes}
      type="checkbox"
      checked={value === true}
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
