/** The label, the description and the faults of a form field. */
import type { ComponentChildren } from "preact";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { Fault } from "./api.ts";
import type { Value } from "./value.ts";

export interface FieldProps {
  readonly schema: SchemaNode;
  readonly label: string;
  /** JSON pointer to the field's value in the request body, such as `/0/image`. */
  readonly pointer: string;
  readonly value: Value;
  /** All faults of the request body. The field shows the faults at or below its pointer. */
  readonly faults: readonly Fault[];
  /** Whether the value may be left out, and has no default. */
  readonly isOptional?: boolean;
  readonly onChange: (value: Value) => void;
}

/** HTML attributes that connect a control with its label, its description and its faults. */
export function controlOf({ pointer, faults }: Pick<FieldProps, "pointer" | "faults">) {
  const id = `field${pointer}`;
  const isFaulty = faultsAt(faults, pointer).length > 0;
  return { id, "aria-invalid": isFaulty, "aria-describedby": `${id}-about ${id}-faults` };
}

/** The faults whose pointer is the given pointer, or lies below it. */
export function faultsAt(faults: readonly Fault[], pointer: string): readonly Fault[] {
  return faults.filter((fault) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`));
}

interface LabelledProps extends Pick<FieldProps, "pointer" | "schema" | "faults" | "label"> {
  readonly children: ComponentChildren;
  /** A description to show instead of the schema's description. */
  readonly description?: string | undefined;
}

/** A control with its label above it, and the description and faults of its value below it. */
export function Labelled({ label, children, description, schema, pointer, faults }: LabelledProps) {
  return (
    <div class="stack close">
      <label for={`field${pointer}`}>{label}</label>
      {children}
      <About pointer={pointer} text={description ?? schema.description} />
      <Faults pointer={pointer} faults={faultsAt(faults, pointer)} />
    </div>
  );
}

export function About({ pointer, text }: { readonly pointer: string; readonly text: string | undefined }) {
  return text ? (
    <p class="about" id={`field${pointer}-about`}>
      {text}
    </p>
  ) : null;
}

export function Faults({ pointer, faults }: Pick<FieldProps, "pointer" | "faults">) {
  if (faults.length === 0) return null;
  return (
    <ul class="faults" id={`field${pointer}-faults`}>
      {faults.slice(0, 5).map((fault) => (
        <li key={fault.pointer + fault.detail}>
          {fault.pointer !== pointer && <code>{fault.pointer.slice(pointer.length)}</code>} {fault.detail}
        </li>
      ))}
      {faults.length > 5 && <li>and {faults.length - 5} more</li>}
    </ul>
  );
}
