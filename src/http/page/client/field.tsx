/** A form field for a value: its label, a control for the kind of its schema, its description and its faults. Objects and lists contain fields. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isObject, type Json, pointerTo } from "../../../base/json.ts";
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
import { initialOf, kindOf } from "./schema.ts";
import { isList, titleOf } from "./value.ts";

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
  json: JsonControl,
};

export function Field({ pointer, faults, ...props }: FieldProps): JSX.Element {
  const { schema, label } = props;
  const kind = kindOf(schema);
  const id = `field${pointer}`;
  const text = kind === "file" ? aboutFile(schema) : schema.description;
  const about = text && (
    <p class="about" id={`${id}-about`}>
      {text}
    </p>
  );
  if (kind === "object" || kind === "list") {
    const Content = kind === "object" ? Members : Items;
    return (
      <fieldset class="nested stack">
        <legend>{label}</legend>
        {about}
        <Content {...props} {...{ pointer, faults }} />
      </fieldset>
    );
  }
  const Control = controls[kind];
  const own = faults.filter((fault) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`));
  const attributes = { id, "aria-invalid": own.length > 0, "aria-describedby": `${id}-about ${id}-faults` };
  return (
    <div class="stack close">
      <label for={id}>{label}</label>
      <Control {...props} attributes={attributes} />
      {about}
      <p class="faults" id={`${id}-faults`}>
        {own.map((fault) => `${fault.pointer.slice(pointer.length)} ${fault.detail}`).join("; ")}
      </p>
    </div>
  );
}

/** The fields of an object. Optional fields without a default stand at the end, and are left out while they are empty. */
export function Members({ schema, value, pointer, faults, isOptional, onChange }: Omit<FieldProps, "label">) {
  const object: Readonly<Record<string, Json>> = isObject(value) ? value : {};
  const members = [...schema.fields].flatMap(([name, member]) => {
    const isLeftOut = !schema.required.includes(name) && member.default === undefined;
    return member.isHidden ? [] : { name, schema: member, label: member.title ?? titleOf(name), isOptional: isLeftOut };
  });
  const optional = members.filter((member) => member.isOptional);
  const [isOpen] = useState(() => optional.length === members.length || optional.some(({ name }) => name in object));
  const field = ({ name, ...member }: (typeof members)[number]) => (
    <Field
      key={name}
      {...member}
      pointer={pointer + pointerTo([name])}
      value={object[name]}
      faults={faults}
      onChange={(changed) => {
        const { [name]: _, ...others } = object;
        const all = changed === undefined ? others : { ...object, [name]: changed };
        onChange(isOptional && Object.keys(all).length === 0 ? undefined : all);
      }}
    />
  );
  return (
    <div class="stack">
      {members.filter((member) => !member.isOptional).map(field)}
      {optional.length > 0 && (
        <details open={isOpen}>
          <summary>More: {optional.map(({ label }) => label).join(", ")}</summary>
          <div class="stack">{optional.map(field)}</div>
        </details>
      )}
    </div>
  );
}

function Items({ label, pointer, faults, schema, value, isOptional, onChange }: FieldProps) {
  const list = isList(value) ? value : [];
  const change = (changed: readonly Json[]) => onChange(isOptional && changed.length === 0 ? undefined : changed);
  return (
    <div class="stack">
      {list.map((item, i) => (
        <div class="removable" key={i}>
          <Field
            schema={schema.items}
            label={`${label} ${i + 1}`}
            pointer={`${pointer}/${i}`}
            value={item}
            faults={faults}
            onChange={(changed) => change(list.with(i, changed ?? ""))}
          />
          <button type="button" aria-label={`Remove ${label} ${i + 1}`} onClick={() => change(list.toSpliced(i, 1))}>
            ×
          </button>
        </div>
      ))}
      <button type="button" onClick={() => change([...list, initialOf(schema.items) ?? ""])}>
        Add
      </button>
    </div>
  );
}
