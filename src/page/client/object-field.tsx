/** The fields of an object; those that may be left out are added by a button. */
import type { SchemaNode } from "../../json-schema.ts";
import { Faults, Field, type FieldProps } from "./field.tsx";
import { initialOf } from "./schema.ts";
import { isObject, titleOf, withMember } from "./value.ts";

export function ObjectField(props: FieldProps) {
  const id = `field${props.pointer}`;
  return (
    <fieldset class="nested" id={id} aria-describedby={props.schema.description ? `${id}-about` : undefined}>
      <legend>{props.label}</legend>
      {props.schema.description && (
        <p class="about" id={`${id}-about`}>
          {props.schema.description}
        </p>
      )}
      <Members {...props} />
    </fieldset>
  );
}

/** @param props.schema of an object */
export function Members({ schema, value, pointer, faults, onChange }: Omit<FieldProps, "label">) {
  const object = isObject(value) ? value : {};
  const { required } = schema;
  const members = [...schema.fields]
    .map(([name, each]) => ({ name, schema: each }))
    .filter((member) => !member.schema.isHidden);
  const isOptional = (name: string) => !required.includes(name);
  const isAt = (name: string) => `${pointer}/${escaped(name)}`;
  const left = members.filter(({ name }) => isOptional(name) && object[name] === undefined);
  // Also those of fields that are not shown.
  const own = faults.filter(
    (fault) =>
      fault.pointer === pointer ||
      (fault.pointer.startsWith(`${pointer}/`) &&
        !members.some(
          ({ name }) => `${fault.pointer}/`.startsWith(`${isAt(name)}/`) && !left.some((each) => each.name === name),
        )),
  );
  const add = (name: string, added: SchemaNode) => {
    onChange(withMember(object, name, initialOf(added) ?? emptyOf(added)));
    requestAnimationFrame(() => document.getElementById(`field${isAt(name)}`)?.focus());
  };
  return (
    <>
      {members
        .filter((member) => !left.includes(member))
        .map((member) => (
          <div class="member" key={member.name}>
            <Field
              schema={member.schema}
              label={titleOf(member.name)}
              pointer={isAt(member.name)}
              value={object[member.name]}
              faults={faults}
              onChange={(changed) =>
                onChange(withMember(object, member.name, changed ?? keptOf(isOptional(member.name))))
              }
            />
            {isOptional(member.name) && member.schema.default === undefined && (
              <button
                type="button"
                class="quiet leave-out"
                aria-label={`Leave out ${member.schema.title ?? titleOf(member.name)}`}
                title="Leave out"
                onClick={() => onChange(withMember(object, member.name, undefined))}
              >
                ×
              </button>
            )}
          </div>
        ))}
      <Faults id={`field${pointer}`} pointer={pointer} faults={own} />
      {left.length > 0 && (
        <div class="chips">
          {left.map((member) => (
            <button type="button" class="chip" key={member.name} onClick={() => add(member.name, member.schema)}>
              + {member.schema.title ?? titleOf(member.name)}
            </button>
          ))}
        </div>
      )}
    </>
  );
}

/** An optional field that is emptied stays on the form; a required one that is missing is for the server to say. */
function keptOf(isOptional: boolean) {
  return isOptional ? "" : undefined;
}

function emptyOf({ types }: SchemaNode) {
  return types.has("array") ? [] : types.has("object") ? {} : "";
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
