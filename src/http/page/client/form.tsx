/** The form: a panel for each input, and buttons to run the inputs, add an input and reset. */
import { useEffect, useRef } from "preact/hooks";
import type { Fault, Model } from "./api.ts";
import { Field, Members } from "./field.tsx";
import { Faults, faultsAt } from "./labelled.tsx";
import { kindOf } from "./schema.ts";
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

export function Form({
  model: { input: schema },
  drafts,
  faults,
  isBusy,
  onChange,
  onRun,
  onCancel,
  onReset,
}: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (faults.length > 0) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [faults]);
  const unplaced = faults.filter((fault) => drafts.every((_, i) => faultsAt([fault], `/${i}`).length === 0));
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
      {drafts.map(({ key, value }, i) => {
        const change = (changed: Value) => onChange(drafts.with(i, { key, value: changed }));
        const at = { schema, value, pointer: `/${i}`, faults, onChange: change };
        return (
          <section class="panel stack" key={key} aria-labelledby={`input-${key}`}>
            <header class="row ends">
              <h2 id={`input-${key}`}>{drafts.length > 1 ? `Input ${i + 1}` : "Input"}</h2>
              {drafts.length > 1 && (
                <button type="button" class="small" onClick={() => onChange(drafts.toSpliced(i, 1))}>
                  Remove
                </button>
              )}
            </header>
            {kindOf(schema).name === "object" ? <Members {...at} /> : <Field {...at} label="Value" />}
          </section>
        );
      })}
      <Faults pointer="" faults={unplaced} />
      <div class="row run-bar">
        {isBusy ? (
          <button type="button" class="large" onClick={onCancel}>
            Cancel
          </button>
        ) : (
          <button type="submit" class="large primary">
            Run
          </button>
        )}
        <button type="button" onClick={() => onChange([...drafts, draftOf(drafts.at(-1)?.value)])}>
          Add an input
        </button>
        <button type="button" class="quiet" onClick={onReset}>
          Reset
        </button>
      </div>
    </form>
  );
}
