/** The form: the fields of the input, and the button that runs it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { isObject, type Json, pointerTo } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { Fault } from "./api.ts";
import { Field } from "./field.tsx";
import { kindOf } from "./schema.ts";
import { titleOf, type Value } from "./value.ts";

interface InputProps {
  readonly schema: SchemaNode;
  readonly value: Value;
  /** Faults of the request body, a list with this input. */
  readonly faults: readonly Fault[];
  readonly onChange: (value: Value) => void;
}

interface FormProps extends InputProps {
  readonly isBusy: boolean;
  readonly onRun: () => void;
  readonly onCancel: () => void;
}

export function Form({ isBusy, onRun, onCancel, ...input }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const faulty = form.current?.querySelector<HTMLElement>("[aria-invalid=true]");
    faulty?.closest("details")?.setAttribute("open", "");
    faulty?.focus();
  }, [input.faults]);
  return (
    <form
      ref={form}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) onRun();
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
      }}
    >
      <article aria-labelledby="input-title">
        <h2 id="input-title">Input</h2>
        {kindOf(input.schema) === "object" ? <Members {...input} /> : <Field {...input} pointer="/0" label="Value" />}
      </article>
      <div class="run-bar">
        <button type="submit" hidden={isBusy}>
          Run
        </button>
        <button type="button" hidden={!isBusy} onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}

/** The fields of an input that is an object. Optional fields without a default stand at the end, and are left out while they are empty. */
function Members({ schema, value, faults, onChange }: InputProps) {
  const object: Readonly<Record<string, Json>> = isObject(value) ? value : {};
  const members = [...schema.fields].flatMap(([name, member]) => {
    const isOptional = !schema.required.includes(name) && member.default === undefined;
    return member.isHidden ? [] : { name, schema: member, label: member.title ?? titleOf(name), isOptional };
  });
  const optional = members.filter(({ isOptional }) => isOptional);
  const [isOpen] = useState(() => optional.length === members.length || optional.some(({ name }) => name in object));
  const field = ({ name, ...member }: (typeof members)[number]) => (
    <Field
      key={name}
      {...member}
      pointer={`/0${pointerTo([name])}`}
      value={object[name]}
      faults={faults}
      onChange={(changed) => {
        const { [name]: _, ...others } = object;
        onChange(changed === undefined ? others : { ...object, [name]: changed });
      }}
    />
  );
  return (
    <>
      {members.filter(({ isOptional }) => !isOptional).map(field)}
      {optional.length > 0 && (
        <details open={isOpen}>
          <summary>More: {optional.map(({ label }) => label).join(", ")}</summary>
          {optional.map(field)}
        </details>
      )}
    </>
  );
}
