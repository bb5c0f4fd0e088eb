/** The form: a panel for each input, and buttons to run the inputs, add an input and reset. */
import { useEffect, useRef } from "preact/hooks";
import type { Fault, Model } from "./api.ts";
import { Field, Members } from "./field.tsx";
import { Faults, faultsAt } from "./labelled.tsx";
import { initialOf, kindOf } from "./schema.ts";
import type { Value } from "./value.ts";

/** One input of the form. `key` identifies it to Preact while other inputs are added or removed. */
export interface Draft {
  readonly key: number;
  readonly value: Value;
}

interface FormProps {
  readonly model: Model;
  readonly drafts: readonly Draft[];
  readonly faults: readonly Fault[];
  readonly isBusy: boolean;
  readonly onChange: (drafts: readonly Draft[]) => void;
  readonly onRun: () => void;
  readonly onCancel: () => void;
  readonly onReset: () => void;
}

let nextKey = 0;

export function draftOf(value: Value): Draft {
  return { key: nextKey++, value };
}

export function Form({ model, drafts, faults, isBusy, onChange, onRun, onCancel, onReset }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const schema = model.input;
  useEffect(() => {
    if (faults.length > 0) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [faults]);
  const change = (index: number, value: Value) =>
    onChange(drafts.map((draft, i) => (i === index ? { ...draft, value } : draft)));
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
      {drafts.map(({ key, value }, i) => {
        const at = { schema, value, pointer: `/${i}`, faults, onChange: (changed: Value) => change(i, changed) };
        return (
          <section class="panel" key={key} aria-labelledby={`input-${key}`}>
            <header class="panel-head">
              <h2 id={`input-${key}`}>{drafts.length > 1 ? `Input ${i + 1}` : "Input"}</h2>
              <span class="actions">
                <button
                  type="button"
                  class="small"
                  onClick={() => onChange(drafts.toSpliced(i + 1, 0, draftOf(value)))}
                >
                  Duplicate
                </button>
                {drafts.length > 1 && (
                  <button type="button" class="small" onClick={() => onChange(drafts.toSpliced(i, 1))}>
                    Remove
                  </button>
                )}
              </span>
            </header>
            {kindOf(schema).name === "object" ? <Members {...at} /> : <Field {...at} label="Value" />}
          </section>
        );
      })}
      <Faults
        id="inputs"
        pointer=""
        faults={faults.filter(({ pointer }) =>
          drafts.every((_, i) => faultsAt([{ pointer, detail: "" }], `/${i}`).length === 0),
        )}
      />
      <div class="run-bar">
        {isBusy ? (
          <button type="button" class="large" onClick={onCancel}>
            Cancel
          </button>
        ) : (
          <button type="submit" class="large primary">
            Run
          </button>
        )}
        <button type="button" onClick={() => onChange([...drafts, draftOf(initialOf(schema))])}>
          Add an input
        </button>
        <button type="button" class="quiet" onClick={onReset}>
          Reset
        </button>
      </div>
    </form>
  );
}
