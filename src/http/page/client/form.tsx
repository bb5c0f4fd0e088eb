/** The form: the fields of the input, and the button that runs it. A field has a label, a control for the kind of its schema, a description and faults. */
import { useEffect, useRef, useState } from "preact/hooks";
import { isObject, type Json, pointerTo } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { Fault } from "./api.ts";
import {
  ChoiceControl,
  type ControlProps,
  JsonControl,
  NumberControl,
  SwitchControl,
  TextControl,
} from "./controls.tsx";
import { aboutFile, FileControl } from "./file-control.tsx";
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

interface FieldProps extends Omit<ControlProps, "attributes"> {
  /** JSON pointer to the field's value in the request body, such as `/0/image`. */
  readonly pointer: string;
  /** All faults of the request body. The field shows the faults at or below its pointer. */
  readonly faults: readonly Fault[];
}

const controls = {
  text: TextControl,
  number: NumberControl,
  switch: SwitchControl,
  choice: ChoiceControl,
  file: FileControl,
  files: FileControl,
  object: JsonControl,
  json: JsonControl,
};

function Field({ pointer, faults, ...props }: FieldProps) {
  const { schema, label } = props;
  const kind = kindOf(schema);
  const id = `field${pointer}`;
  const Control = controls[kind];
  const own = faults.filter((fault) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`));
  const isInvalid = own.length > 0 ? ("true" as const) : undefined;
  const attributes = { id, "aria-invalid": isInvalid, "aria-describedby": `${id}-about ${id}-faults` };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <Control {...props} attributes={attributes} />
      <small class="about" id={`${id}-about`}>
        {kind === "file" || kind === "files" ? aboutFile(schema) : schema.description}
      </small>
      <small class="faults" id={`${id}-faults`}>
        {own.map((fault) => `${fault.pointer.slice(pointer.length)} ${fault.detail}`).join("; ")}
      </small>
    </div>
  );
}
