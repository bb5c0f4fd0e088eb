/** A form field for a value. The schema decides which kind of field. Fields for objects and lists contain fields. */
import type { JSX } from "preact";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { ArrayField } from "./array-field.tsx";
import { FileField } from "./file-field.tsx";
import { About, Faults, type FieldProps } from "./labelled.tsx";
import { ChoiceField, NumberField, SwitchField, TextField } from "./plain-fields.tsx";
import { initialOf, kindOf } from "./schema.ts";
import { isList, isObject, titleOf, withMember } from "./value.ts";

export function Field(props: FieldProps): JSX.Element {
  const kind = kindOf(props.schema);
  const own = { ...props, label: props.schema.title ?? props.label };
  switch (kind.name) {
    case "text":
      return <TextField {...own} />;
    case "number":
      return <NumberField {...own} />;
    case "switch":
      return <SwitchField {...own} />;
    case "choice":
      return <ChoiceField {...own} choices={kind.choices} />;
    case "file":
      return <FileField {...own} file={kind.file} />;
    case "list":
      return <ListField {...own} items={kind.items} />;
    case "object":
      return <ObjectField {...own} />;
    default:
      return <ArrayField {...own} takesNumbers={kind.name === "array"} />;
  }
}

function ObjectField(props: FieldProps) {
  const id = `field${props.pointer}`;
  return (
    <fieldset class="nested" id={id} aria-describedby={props.schema.description ? `${id}-about` : undefined}>
      <legend>{props.label}</legend>
      <About id={id} text={props.schema.description} />
      <Members {...props} />
    </fieldset>
  );
}

/** The fields of an object. Buttons add optional fields that have no value yet, and remove optional fields without a default. */
export function Members({ schema, value, pointer, faults, onChange }: Omit<FieldProps, "label">) {
  const object = isObject(value) ? value : {};
  const { required } = schema;
  const members = [...schema.fields]
    .map(([name, each]) => ({ name, schema: each }))
    .filter((member) => !member.schema.isHidden);
  const isOptional = (name: string) => !required.includes(name);
  const isAt = (name: string) => `${pointer}/${escaped(name)}`;
  const omitted = members.filter(({ name }) => isOptional(name) && object[name] === undefined);
  // Faults to show beside the object: faults of the object itself, and of members without a visible field.
  const own = faults.filter(
    (fault) =>
      fault.pointer === pointer ||
      (fault.pointer.startsWith(`${pointer}/`) &&
        !members.some(
          ({ name }) => `${fault.pointer}/`.startsWith(`${isAt(name)}/`) && !omitted.some((each) => each.name === name),
        )),
  );
  const add = (name: string, added: SchemaNode) => {
    onChange(withMember(object, name, initialOf(added) ?? emptyOf(added)));
    requestAnimationFrame(() => document.getElementById(`field${isAt(name)}`)?.focus());
  };
  return (
    <>
      {members
        .filter((member) => !omitted.includes(member))
        .map((member) => (
          <div class="member" key={member.name}>
            <Field
              schema={member.schema}
              label={titleOf(member.name)}
              pointer={isAt(member.name)}
              value={object[member.name]}
              faults={faults}
              onChange={(changed) =>
                onChange(withMember(object, member.name, changed ?? emptiedValue(isOptional(member.name))))
              }
            />
            {isOptional(member.name) && member.schema.default === undefined && (
              <LeaveOut
                verb="Leave out"
                what={member.schema.title ?? titleOf(member.name)}
                onClick={() => onChange(withMember(object, member.name, undefined))}
              />
            )}
          </div>
        ))}
      <Faults id={`field${pointer}`} pointer={pointer} faults={own} />
      {omitted.length > 0 && (
        <div class="chips">
          {omitted.map((member) => (
            <button type="button" class="chip" key={member.name} onClick={() => add(member.name, member.schema)}>
              + {member.schema.title ?? titleOf(member.name)}
            </button>
          ))}
        </div>
      )}
    </>
  );
}

interface LeaveOutProps {
  readonly verb: string;
  readonly what: string;
  readonly onClick: () => void;
}

function LeaveOut({ verb, what, onClick }: LeaveOutProps) {
  return (
    <button type="button" class="quiet leave-out" aria-label={`${verb} ${what}`} title={verb} onClick={onClick}>
      ×
    </button>
  );
}

/**
 * The value of a member whose field was emptied. An optional member becomes "", so that its field stays. A required member is left out, which the
 * server reports as a fault.
 */
function emptiedValue(isOptional: boolean) {
  return isOptional ? "" : undefined;
}

function emptyOf({ types }: SchemaNode) {
  return types.has("array") ? [] : types.has("object") ? {} : "";
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function ListField({ value, onChange, items, ...at }: FieldProps & { readonly items: SchemaNode }) {
  const list = isList(value) ? value : [];
  const id = `field${at.pointer}`;
  const { limits, description } = at.schema;
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = limits;
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
            <LeaveOut verb="Remove" what={`${at.label} ${i + 1}`} onClick={() => onChange(list.toSpliced(i, 1))} />
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
