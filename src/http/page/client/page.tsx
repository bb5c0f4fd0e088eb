/** The page of a model: the form, the result, and the request as code. */
import { type ComponentChildren, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Model, type Persistence, persistently, type Refusal, readExamples, readModel } from "./api.ts";
import { OtherKey } from "./api-key.tsx";
import { takeDroppedFiles } from "./choose-file.tsx";
import { Code } from "./code.tsx";
import { Examples } from "./examples.tsx";
import { type Draft, draftOf, Form } from "./form.tsx";
import { Result } from "./result.tsx";
import { idle, Runner } from "./run.ts";
import { initialOf } from "./schema.ts";
import type { Value } from "./value.ts";

interface PageProps {
  readonly model: Model;
  readonly examples: readonly Value[];
}

function Page({ model, examples }: PageProps) {
  const draftsOf = (example: Value) => [draftOf(initialOf(model.input, example))];
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => draftsOf(examples[0]));
  const [state, setState] = useState(idle);
  const [unavailable, setUnavailable] = useState<Refusal>();
  const [current, setCurrent] = useState(model);
  const runner = useMemo(
    () => new Runner({ part: model.part, onChange: setState, onUnavailable: setUnavailable }),
    [model],
  );
  useEffect(() => {
    const openLink = () => {
      const id = new URLSearchParams(location.hash.slice(1)).get("id");
      if (id !== null) runner.open(id);
    };
    openLink();
    addEventListener("hashchange", openLink);
    return () => removeEventListener("hashchange", openLink);
  }, [runner]);
  const { refusal, run, isBusy } = state;
  useEffect(() => {
    // The server may have another build of the model after each run.
    if (!isBusy) readModel().then(setCurrent, () => {});
  }, [isBusy]);
  const faults = useMemo(
    () =>
      refusal?.faults ??
      (run?.errors ?? []).map(({ index, message, pointer = `/${index}` }) => ({ pointer, detail: message })),
    [refusal, run?.errors],
  );
  const values = useMemo(() => drafts.map(({ value }) => value), [drafts]);
  return (
    <>
      <header class="row ends">
        <div>
          <h1>{model.name}</h1>
          <p class="lead">{model.description}</p>
        </div>
        <p class="version">
          Build <code title={`The build of the model that this server runs: ${model.digest}`}>{model.tag}</code>
        </p>
      </header>
      <div class="notices" role="status">
        {unavailable !== undefined && (
          <p class="notice">{unavailable.message}. This page continues when the server is back; nothing is lost.</p>
        )}
        {current.digest !== model.digest && (
          <div class="notice">
            The server has another build of this model now: {current.tag}.{" "}
            <button type="button" class="small" onClick={() => location.reload()}>
              Reload the page
            </button>
          </div>
        )}
      </div>
      <main>
        <div class="stack">
          <Examples examples={examples} onChoose={(example) => setDrafts(draftsOf(example))} />
          <Form
            {...{ model, drafts, faults, isBusy }}
            onChange={setDrafts}
            onRun={() => runner.start(values)}
            onCancel={() => runner.cancel()}
            onReset={() => setDrafts(draftsOf(examples[0]))}
          />
        </div>
        <div class="results">
          <Result model={model} state={state} />
        </div>
        <Code inputs={values} />
      </main>
    </>
  );
}

/** Shows a message in place of the page. */
function say(children: ComponentChildren): void {
  render(
    <main class="waiting">
      <h1>{document.title}</h1>
      {children}
    </main>,
    document.body,
  );
}

async function begin(): Promise<void> {
  const { signal } = new AbortController();
  const onUnavailable: Persistence["onUnavailable"] = (unavailable) => {
    if (unavailable === undefined) return;
    say(
      <>
        <p class="lead" role="status">
          {unavailable.message}. This page opens when the server is ready.
        </p>
        <progress aria-label="Waiting for the server" />
      </>,
    );
  };
  try {
    const reading = () => Promise.all([readModel(), readExamples()]);
    const [model, examples] = await persistently(reading, { signal, onUnavailable });
    document.title = model.name;
    render(<Page model={model} examples={examples} />, document.body);
  } catch (error) {
    say(
      <>
        <p class="notice bad" role="alert">
          {error instanceof Error ? error.message : String(error)}
        </p>
        <OtherKey onChange={begin} />
      </>,
    );
  }
}

takeDroppedFiles();
begin();
