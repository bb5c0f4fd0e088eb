/** Form fields for a text, a number, JSON, a boolean, and a choice from a list. */
import { useState } from "preact/hooks";
import { listsOfNpy } from "../../../base/npy.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { ChooseFile } from "./choose-file.tsx";
import { controlOf, type FieldProps, Labelled } from "./labelled.tsx";
import { type Choice, isRange } from "./schema.ts";
import type { Json, Value } from "./value.ts";

/** Maximum length of texts that get a field of one line. Texts with a format or a pattern always get one. */
const LINE_LENGTH = 120;

export function TextField({ value, onChange, isOptional, ...at }: FieldProps) {
  const { format, pattern, limits } = at.schema;
  const isLine = (limits.maxLength ?? Number.POSITIVE_INFINITY) <= LINE_LENGTH || format !== undefined || pattern;
  const Control = isLine ? "input" : "textarea";
  return (
    <Labelled {...at}>
      <Control
        {...controlOf(at)}
        {...(isLine ? { type: "text" } : { rows: 3 })}
        value={typeof value === "string" ? value : ""}
        onInput={({ currentTarget: { value: text } }) => onChange(text === "" && isOptional ? undefined : text)}
      />
    </Labelled>
  );
}

/** The text of a value in a control. A typed text stays as it is: formatting its value again would change `1.` to `1`. */
function useText({ value, onChange }: Pick<FieldProps, "value" | "onChange">, parse: (text: string) => Value) {
  const [typed, setTyped] = useState<{ readonly value: Value; readonly text: string }>();
  const formatted = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return {
    value: typed !== undefined && typed.value === value ? typed.text : formatted,
    onInput({ currentTarget: { value: text } }: { readonly currentTarget: { readonly value: string } }) {
      const parsed = text.trim() === "" ? undefined : parse(text);
      setTyped({ value: parsed, text });
      onChange(parsed);
    },
  };
}

export function NumberField({ value, onChange, ...at }: FieldProps) {
  const { minimum: min, maximum: max } = at.schema.limits;
  // Text that is no number stays a string, so that the server's answer explains the fault.
  const text = useText({ value, onChange }, (text) => (Number.isNaN(Number(text)) ? text : Number(text)));
  return (
    <Labelled {...at}>
      <div class="number">
        <input
          {...controlOf(at)}
          {...text}
          type="text"
          inputMode={min === undefined || min < 0 ? "text" : "decimal"}
          autocomplete="off"
        />
        {isRange(at.schema) && min !== undefined && max !== undefined && (
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

/** A text field for JSON. It edits arrays of numbers, which may come from a file, and values that no other field can edit. */
export function JsonField({ value, onChange, ...at }: FieldProps) {
  const [problem, setProblem] = useState<string>();
  const text = useText({ value, onChange }, (text) => {
    try {
      const parsed: Json = JSON.parse(text);
      return parsed;
    } catch {
      // Text that is not JSON stays a string, so that the server's answer explains the fault.
      return text;
    }
  });
  const take = async (file: File) => {
    try {
      onChange(listsOfNpy(new Uint8Array(await file.arrayBuffer())) ?? JSON.parse(await file.text()));
      setProblem(undefined);
    } catch (error) {
      setProblem(`The file is neither JSON nor .npy: ${error instanceof Error ? error.message : String(error)}.`);
    }
  };
  return (
    <Labelled {...at} description={problem ?? at.schema.description ?? "JSON, or a .npy or .json file."}>
      <div class="drop stack close">
        <textarea {...controlOf(at)} {...text} class="code" rows={3} spellcheck={false} />
        <ChooseFile label={`${at.label}: read a file`} onChoose={take}>
          Read a file
        </ChooseFile>
      </div>
    </Labelled>
  );
}

export function SwitchField({ value, onChange, ...at }: FieldProps) {
  return (
    <Labelled {...at}>
      <input
        {...controlOf(at)}
        type="checkbox"
        checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </Labelled>
  );
}

export function ChoiceField({
  value,
  onChange,
  choices,
  isOptional,
  ...at
}: FieldProps & { readonly choices: readonly Choice[] }) {
  const chosen = choices.findIndex((choice) => choice.value === value);
  return (
    <Labelled {...at}>
      <select
        {...controlOf(at)}
        value={String(chosen)}
        onChange={(event) => onChange(choices[Number(event.currentTarget.value)]?.value)}
      >
        {(isOptional || chosen < 0) && <option value="-1">Choose …</option>}
        {choices.map(({ label }, i) => (
          <option key={label} value={String(i)}>
            {label}
          </option>
        ))}
      </select>
    </Labelled>
  );
}
