/** A form field for a value. The schema decides which kind of field. Fields for objects and lists contain fields. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { pointerTo } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { FileField } from "./file-field.tsx";
import { About, Faults, type FieldProps, faultsAt } from "./labelled.tsx";
import { ChoiceField, JsonField, NumberField, SwitchField, TextField } from "./plain-fields.tsx";
import { initialOf, kindOf } from "./schema.ts";
import { isList, isObject, titleOf, withMember } from "./value.ts";

const yesOrNo = [
  { value: true, label: "Yes" },
  { value: false, label: "No" },
];

export function Field(props: FieldProps): JSX.Element {
  const kind = kindOf(props.schema);
  switch (kind.name) {
    case "text":
      return <TextField {...props} />;
    case "number":
      return <NumberField {...props} />;
    case "switch":
      return props.isOptional ? <ChoiceField {...props} choices={yesOrNo} /> : <SwitchField {...props} />;
    case "choice":
      return <ChoiceField {...props} choices={kind.choices} />;
    case "file":
      return <FileField {...props} file={kind.file} />;
    case "list":
      return <ListField {...props} items={kind.items} />;
    case "object":
      return <ObjectField {...props} />;
    default:
      return <JsonField {...props} />;
  }
}

interface GroupProps extends Pick<FieldProps, "label" | "pointer" | "schema"> {
  readonly children: ComponentChildren;
}

function Group({ label, pointer, schema, children }: GroupProps) {
  return (
    <fieldset class="nested stack" id={`field${pointer}`} aria-describedby={`field${pointer}-about`}>
      <legend>{label}</legend>
      <About pointer={pointer} text={schema.description} />
      {children}
    </fieldset>
  );
}

function ObjectField({ onChange, ...props }: FieldProps) {
  return (
    <Group {...props}>
      <Members
        {...props}
        onChange={(value) => onChange(props.isOptional && Object.keys(value ?? {}).length === 0 ? undefined : value)}
      />
    </Group>
  );
}

/** The fields of an object. Optional fields without a default stand at the end, and are left out while they are empty. */
export function Members({ schema, value, pointer, faults, onChange }: Omit<FieldProps, "label">) {
  const object = isObject(value) ? value : {};
  const members = [...schema.fields]
    .filter(([, each]) => !each.isHidden)
    .map(([name, each]) => ({
      name,
      schema: each,
      label: each.title ?? titleOf(name),
      pointer: pointer + pointerTo([name]),
      isOptional: !schema.required.includes(name) && each.default === undefined,
    }));
  const optional = members.filter(({ isOptional }) => isOptional);
  const hasContent = (each: (typeof members)[number]) =>
    object[each.name] !== undefined || faultsAt(faults, each.pointer).length > 0;
  const [isOpen, setOpen] = useState(optional.length === members.length);
  const field = ({ name, ...each }: (typeof members)[number]) => (
    <Field
      key={name}
      {...each}
      value={object[name]}
      faults={faults}
      onChange={(changed) => onChange(withMember(object, name, changed))}
    />
  );
  return (
    <div class="stack">
      {members.filter(({ isOptional }) => !isOptional).map(field)}
      {optional.length > 0 && (
        <details open={isOpen || optional.some(hasContent)} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>More: {optional.map(({ label }) => label).join(", ")}</summary>
          <div class="stack">{optional.map(field)}</div>
        </details>
      )}
      <OwnFaults pointer={pointer} faults={faults} members={members.map((each) => each.pointer)} />
    </div>
  );
}

interface OwnFaultsProps extends Pick<FieldProps, "pointer" | "faults"> {
  /** Pointers to the values inside that have fields. */
  readonly members: readonly string[];
}

/** Faults of an object or a list, and of values inside that have no visible field. */
function OwnFaults({ pointer, faults, members }: OwnFaultsProps) {
  const shown = members.flatMap((member) => faultsAt(faults, member));
  return <Faults pointer={pointer} faults={faultsAt(faults, pointer).filter((fault) => !shown.includes(fault))} />;
}

function ListField({ items, ...props }: FieldProps & { readonly items: SchemaNode }) {
  const { label, pointer, faults, schema, value, isOptional, onChange } = props;
  const list = isList(value) ? value : [];
  const change = (changed: typeof list) => onChange(isOptional && changed.length === 0 ? undefined : changed);
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema.limits;
  return (
    <Group {...props}>
      <div class="stack">
        {list.map((item, i) => (
          <div class="removable" key={i}>
            <Field
              schema={items}
              label={`${label} ${i + 1}`}
              pointer={`${pointer}/${i}`}
              value={item}
              faults={faults}
              onChange={(changed) => change(list.with(i, changed ?? ""))}
            />
            {list.length > minItems && (
              <button
                type="button"
                class="quiet small"
                aria-label={`Remove ${label} ${i + 1}`}
                onClick={() => change(list.toSpliced(i, 1))}
              >
                ×
              </button>
            )}
          </div>
        ))}
        <OwnFaults pointer={pointer} faults={faults} members={[...list.keys()].map((i) => `${pointer}/${i}`)} />
        {list.length < maxItems && (
          <button type="button" class="small" onClick={() => change([...list, initialOf(items) ?? ""])}>
            Add
          </button>
        )}
      </div>
    </Group>
  );
}
