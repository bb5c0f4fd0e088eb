/** A form field for a value: its label, a control for the kind of its schema, its description and its faults. */
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

export function Field({ pointer, faults, ...props }: FieldProps) {
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
