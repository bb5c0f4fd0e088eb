/** The form: the fields of the input, and buttons to run it and to reset it. */
import { useEffect, useRef } from "preact/hooks";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import type { Fault } from "./api.ts";
import { Field, Members } from "./field.tsx";
import { kindOf } from "./schema.ts";
import type { Value } from "./value.ts";

interface FormProps {
  readonly schema: SchemaNode;
  readonly value: Value;
  /** Faults of the request body, a list with this input. */
  readonly faults: readonly Fault[];
  readonly isBusy: boolean;
  readonly onChange: (value: Value) => void;
  readonly onRun: () => void;
  readonly onCancel: () => void;
}

export function Form({ isBusy, onRun, onCancel, ...input }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    const faulty = "[aria-invalid=true]";
    for (const folded of form.current?.querySelectorAll(`details:has(${faulty})`) ?? [])
      folded.setAttribute("open", "");
    form.current?.querySelector<HTMLElement>(faulty)?.focus();
  }, [input.faults]);
  return (
    <form
      ref={form}
      class="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) onRun();
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
      }}
    >
      <section class="panel stack" aria-labelledby="input-title">
        <h2 id="input-title">Input</h2>
        {kindOf(input.schema) === "object" ? (
          <Members {...input} pointer="/0" />
        ) : (
          <Field {...input} pointer="/0" label="Value" />
        )}
      </section>
      <div class="row run-bar">
        <button type="submit" class="large primary" hidden={isBusy}>
          Run
        </button>
        <button type="button" class="large" hidden={!isBusy} onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
