/** The page of a model: the form, the result, and the request as code. */
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Model, type Persistence, persistently, readExamples, readModel } from "./api.ts";
import { Code } from "./code.tsx";
import { Examples } from "./examples.tsx";
import { type Draft, draftOf, Form } from "./form.tsx";
import { OtherKey } from "./other-key.tsx";
import { Result } from "./result.tsx";
import { initialOf } from "./schema.ts";
import { useConnection } from "./use-connection.ts";
import { useRun } from "./use-run.ts";
import type { Value } from "./value.ts";

interface PageProps {
  readonly model: Model;
  readonly examples: readonly Value[];
}

function Page({ model, examples }: PageProps) {
  const initial = useMemo(() => initialOf(model.input, examples[0]), [model, examples]);
  const { unavailable, onUnavailable, newer } = useConnection(model);
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => [draftOf(initial)]);
  const control = useRun({ part: model.part, onUnavailable });
  const { open } = control;
  useEffect(() => {
    const openLink = () => {
      const id = new URLSearchParams(location.hash.slice(1)).get("id");
      if (id !== null) open(id);
    };
    openLink();
    addEventListener("hashchange", openLink);
    return () => removeEventListener("hashchange", openLink);
  }, [open]);

  const { refusal, run, failures, inputs: sent } = control;
  const faults = useMemo(
    () =>
      refusal?.faults ?? failures.map(({ index, message, pointer = `/${index}` }) => ({ pointer, detail: message })),
    [refusal, failures],
  );
  // The run was opened by a link, so the page does not know its inputs. The form is hidden, because the result belongs to other inputs than the
  // form shows.
  const isForeign = sent === undefined && run !== undefined;
  const values = useMemo(() => drafts.map(({ value }) => value), [drafts]);
  return (
    <>
      <header class="page-head">
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
          <p class="notice">{unavailable.message} This page continues when the server is back; nothing is lost.</p>
        )}
        {newer !== undefined && (
          <div class="notice">
            The server has another build of this model now: {newer.tag}.{" "}
            <button type="button" class="small" onClick={() => location.reload()}>
              Reload the page
            </button>
          </div>
        )}
      </div>
      <main>
        <div class="column inputs">
          {isForeign ? (
            <section class="panel" aria-labelledby="input-title">
              <header class="panel-head">
                <h2 id="input-title">Input</h2>
              </header>
              <p class="about">This result was opened by its link. This page does not have its input.</p>
              <button type="button" class="small own" onClick={control.reset}>
                Try an input of your own
              </button>
            </section>
          ) : (
            <>
              <Examples
                examples={examples}
                onChoose={(example) => setDrafts([draftOf(initialOf(model.input, example))])}
              />
              <Form
                {...{ model, drafts }}
                faults={faults}
                isBusy={control.isBusy}
                onChange={setDrafts}
                onRun={() => control.start(values)}
                onCancel={control.cancel}
                onReset={() => setDrafts([draftOf(initial)])}
              />
            </>
          )}
        </div>
        <div class="column results">
          <Result model={model} state={control} />
        </div>
        <div class="column more">{!isForeign && <Code inputs={values} />}</div>
      </main>
    </>
  );
}

async function begin(): Promise<void> {
  const { signal } = new AbortController();
  const onUnavailable: Persistence["onUnavailable"] = (unavailable) => {
    if (unavailable === undefined) return;
    render(
      <main class="waiting">
        <h1>{document.title}</h1>
        <p class="lead" role="status">
          {unavailable.message} This page opens when the server is ready.
        </p>
        <progress aria-label="Waiting for the server" />
      </main>,
      document.body,
    );
  };
  try {
    const reading = () => Promise.all([readModel(), readExamples()]);
    const [model, examples] = await persistently(reading, { signal, onUnavailable });
    document.title = model.name;
    render(<Page model={model} examples={examples} />, document.body);
  } catch (error) {
    render(
      <main class="waiting">
        <h1>{document.title}</h1>
        <p class="notice bad" role="alert">
          {error instanceof Error ? error.message : String(error)}
        </p>
        <OtherKey onChange={begin} />
      </main>,
      document.body,
    );
  }
}

begin();
