/** The page of a model: the form, the result, and the request as code. */
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Model, readExamples, readModel } from "./api.ts";
import { Code } from "./code.tsx";
import { takePastedFiles } from "./file-control.tsx";
import { Form } from "./form.tsx";
import { Result } from "./result.tsx";
import { useRun } from "./run.ts";
import { initialOf } from "./schema.ts";
import { firstText, isFile, isPicture, type Value } from "./value.ts";

interface PageProps {
  readonly model: Model;
  readonly examples: readonly Value[];
}

/** Maximum characters of a text on a button. */
const MAX_TEXT = 60;

function Page({ model, examples }: PageProps) {
  const [value, setValue] = useState(() => initialOf(model.input, examples[0]));
  /** Number of clicks on an example. Each click makes a new form. */
  const [chosen, setChosen] = useState(0);
  const { state, start, cancel } = useRun(model.part);
  const { refusal, run, isBusy } = state;
  const faults = useMemo(
    () => refusal?.faults ?? (run?.errors ?? []).map(({ message, pointer = "/0" }) => ({ pointer, detail: message })),
    [refusal, run?.errors],
  );
  return (
    <>
      <header class="row ends">
        <div>
          <h1>{model.name}</h1>
          <p class="lead">{model.description}</p>
        </div>
        <small>
          Build <code title={model.digest}>{model.tag}</code>
        </small>
      </header>
      <main>
        <div class="stack">
          {examples.length > 1 && (
            <fieldset class="row">
              <legend>Examples</legend>
              {examples.map((example, i) => {
                const fill = () => {
                  setValue(initialOf(model.input, example));
                  setChosen(chosen + 1);
                };
                const picture = firstText(example, isPicture);
                return (
                  <button type="button" key={i} onClick={fill}>
                    {picture !== undefined && <img src={picture} alt="" />}
                    {firstText(example, (text) => !isFile(text))?.slice(0, MAX_TEXT) ?? `Example ${i + 1}`}
                  </button>
                );
              })}
            </fieldset>
          )}
          <Form
            key={chosen}
            schema={model.input}
            {...{ value, faults, isBusy }}
            onChange={setValue}
            onRun={() => start(value)}
            onCancel={cancel}
          />
        </div>
        <Result model={model} state={state} />
        <Code input={value} />
      </main>
    </>
  );
}

async function begin(): Promise<void> {
  try {
    const [model, examples] = await Promise.all([readModel(), readExamples()]);
    document.title = model.name;
    render(<Page model={model} examples={examples} />, document.body);
  } catch (error) {
    document.body.append(error instanceof Error ? error.message : String(error));
  }
}

takePastedFiles();
begin();
