/** The page of a model: the form, the result, the request as code, and the history of runs. */
import { render } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { hasEnded, type Model, type Persistence, persistently, type Run, readExamples, readModel } from "./api.ts";
import { Code } from "./code.tsx";
import { Examples } from "./examples.tsx";
import { type Draft, draftOf, Form } from "./form.tsx";
import { type Entry, readHistory, thumbnailOf, withRun, withThumbnail, writeHistory } from "./history.ts";
import { HistoryPanel } from "./history-panel.tsx";
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
  const [entries, setEntries] = useState(() => readHistory(model.name));
  const keep = useCallback(
    (change: (before: readonly Entry[]) => readonly Entry[]) =>
      setEntries(() => {
        // Reads the stored history first, since another tab may have changed it.
        const after = change(readHistory(model.name));
        writeHistory(model.name, after);
        return after;
      }),
    [model.name],
  );
  const onRun = useCallback(
    (run: Run, inputs: readonly Value[] | undefined) => {
      keep((before) => withRun(before, run, inputs));
      if (!hasEnded(run)) return;
      thumbnailOf([...(inputs ?? []), ...(run.demo_outputs ?? []), ...(run.outputs ?? [])]).then((thumbnail) => {
        if (thumbnail !== undefined) keep((before) => withThumbnail(before, run.demo_id, thumbnail));
      });
    },
    [keep],
  );
  const control = useRun({ part: model.part, onUnavailable, onRun });
  const { open } = control;

  const show = useCallback(
    (id: string) => {
      const inputs = readHistory(model.name).find((entry) => entry.id === id)?.inputs;
      if (inputs !== undefined) setDrafts(inputs.map(draftOf));
      open(id, inputs);
    },
    [model.name, open],
  );
  useEffect(() => {
    const openLink = () => {
      const id = new URLSearchParams(location.hash.slice(1)).get("id");
      if (id !== null) show(id);
    };
    openLink();
    addEventListener("hashchange", openLink);
    return () => removeEventListener("hashchange", openLink);
  }, [show]);

  const { refusal, run, failures, inputs: sent } = control;
  const faults = useMemo(
    () =>
      refusal?.faults ?? failures.map(({ index, message, pointer = `/${index}` }) => ({ pointer, detail: message })),
    [refusal, failures],
  );
  // The run was opened by a link, and this browser does not know its inputs. The form is hidden, because the result belongs to other inputs than the
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
              <p class="about">This result was opened by its link. This browser does not have its input.</p>
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
        <div class="column more">
          {!isForeign && <Code inputs={values} />}
          <HistoryPanel
            entries={entries}
            shownId={run?.demo_id}
            onOpen={({ id }) => {
              history.replaceState(null, "", `#id=${id}`);
              show(id);
            }}
            onClear={() => keep(() => [])}
          />
        </div>
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
  const [model, examples] = await persistently(() => Promise.all([readModel(), readExamples()]), {
    signal,
    onUnavailable,
  });
  document.title = model.name;
  render(<Page model={model} examples={examples} />, document.body);
}

begin();
