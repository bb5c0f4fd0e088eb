/** Shows the result of a run (a demo prediction): its status, logs and faults, and the outputs of each input. */
import { useEffect, useRef } from "preact/hooks";
import { hasEnded, type Model, type Run } from "./api.ts";
import { Clock } from "./clock.tsx";
import { CopyButton } from "./copy-button.tsx";
import { OtherKey } from "./other-key.tsx";
import { Output } from "./output.tsx";
import type { RunState } from "./use-run.ts";
import { isObject, type Json, pictureIn } from "./value.ts";

export function Result({ model, state }: { readonly model: Model; readonly state: RunState }) {
  const { run, inputs, refusal, isBusy, places, failures } = state;
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Scrolls to the result when a run begins: on a narrow screen, it may be out of sight below a long form.
    const top = panel.current?.getBoundingClientRect().top ?? 0;
    if (isBusy && (top < 0 || top > innerHeight / 2)) panel.current?.scrollIntoView();
  }, [isBusy]);
  const isWhole = run?.outputs !== undefined;
  const outputs: readonly (Json | undefined)[] = run?.outputs ?? run?.partial_outputs ?? [];
  const grown = isWhole ? [] : (run?.grown ?? []);
  const shown = Array.from({ length: Math.max(outputs.length, grown.length) }, (_, i) => outputs[i] ?? null);
  // Without `inputs`, their number is unknown: the run was opened by a link.
  const done = inputs === undefined ? 0 : outputs.filter((each) => each !== undefined).length / inputs.length;
  const count = (inputs?.length ?? shown.length) + failures.length;
  return (
    <section ref={panel} class="panel result" aria-labelledby="result-title">
      <header class="panel-head">
        <h2 id="result-title">Result</h2>
        <Status state={state} />
      </header>
      {isBusy && <Progress logs={run?.logs ?? ""} done={done} />}
      {refusal !== undefined && (
        <p class="notice bad" role="alert">
          {refusal.status === 404 && run === undefined && inputs === undefined
            ? "The server no longer has this result."
            : refusal.status === 404
              ? "The server no longer has this run: it was restarted, or the run is too old. Run it again."
              : refusal.status === 422
                ? "Some fields need another value. Each shows its fault."
                : refusal.message}
        </p>
      )}
      {refusal?.status === 403 && <OtherKey />}
      {failures.length > 0 && <Failures failures={failures} />}
      {run?.status === "failed" && !isCanceled(run) && run.errors === undefined && (
        <p class="notice bad" role="alert">
          {run.error_message}
        </p>
      )}
      {shown.map(
        (output, i) =>
          (isWhole || output !== null || grown[i] !== undefined) && (
            <article key={i} class="item" aria-label={count > 1 ? `Input ${(places[i] ?? i) + 1}` : undefined}>
              {count > 1 && <h3>Input {(places[i] ?? i) + 1}</h3>}
              {isWhole || output !== null ? (
                <ItemOutputs
                  model={model}
                  output={output}
                  shown={run?.demo_outputs?.[i] ?? output}
                  picture={pictureIn(inputs?.[i])}
                />
              ) : (
                <Output value={grown[i] ?? null} schema={model.part} label="Output so far" picture={undefined} />
              )}
            </article>
          ),
      )}
      {run === undefined && refusal === undefined && !isBusy && (
        <p class="empty">The result appears here. The form has an example: run it.</p>
      )}
      {run !== undefined && run.logs !== "" && (
        <details class="logs" open={!hasEnded(run) || run.status === "failed"}>
          <summary>Logs</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys */}
          <pre role="log" aria-label="Logs" tabIndex={0}>
            {run.logs}
          </pre>
        </details>
      )}
      {run !== undefined && hasEnded(run) && (
        <div class="under">
          <p class="about">The link opens this result again while the server keeps it.</p>
          <CopyButton text={location.href}>Copy the link</CopyButton>
        </div>
      )}
    </section>
  );
}

interface ItemOutputsProps {
  readonly model: Model;
  readonly output: Json;
  /** The demo output of the input; the output if there is no demo output. */
  readonly shown: Json;
  readonly picture: string | undefined;
}

function ItemOutputs({ model, output, shown, picture }: ItemOutputsProps) {
  const { output: schema, demoOutput: demoSchema } = model;
  const part = (value: Json, of: typeof schema, label: string) => (
    <Output value={value} schema={of} label={label} picture={picture} />
  );
  if (JSON.stringify(output) === JSON.stringify(shown)) return part(output, schema, "Output");
  // Shows only members of the demo output that differ from the same members of the output.
  const known = isObject(output) ? output : {};
  const more = isObject(shown)
    ? Object.fromEntries(
        Object.entries(shown).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(known[name])),
      )
    : shown;
  return (
    <div class="both">
      {part(more, demoSchema, "Demo output")}
      {part(output, schema, "Output")}
    </div>
  );
}

function Failures({ failures }: Pick<RunState, "failures">) {
  return (
    <div class="notice bad" role="alert">
      <p>{failures.length === 1 ? "An input failed." : `${failures.length} inputs failed.`}</p>
      <ul>
        {failures.map(({ index, message }) => (
          <li key={index}>
            <strong>Input {index + 1}:</strong> {message}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function isCanceled({ status, error_message }: Run): boolean {
  return status === "failed" && error_message === "Canceled";
}

function Status({ state: { run, isBusy, refusal, failures } }: { readonly state: RunState }) {
  const text = isBusy
    ? run?.status === "running"
      ? "Running"
      : "Waiting for its turn"
    : refusal !== undefined
      ? "Refused"
      : run === undefined
        ? ""
        : run.status === "success"
          ? failures.length > 0
            ? "Done in part"
            : "Done"
          : isCanceled(run)
            ? "Canceled"
            : "Failed";
  const kind = text.startsWith("Done") ? "good" : isBusy ? "busy" : "bad";
  return (
    <p class={`status ${text === "" ? "" : kind}`}>
      <span role="status">{text}</span>
      {isBusy ? <Clock /> : run !== undefined && refusal === undefined && <span class="took">{tookOf(run)}</span>}
    </p>
  );
}

function tookOf({ created_at, finished_at }: Run): string {
  if (finished_at === undefined) return "";
  const ms = Date.parse(finished_at) - Date.parse(created_at);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A progress bar. Its value is the last percentage in the logs, such as `40%`, else the share of inputs that are done. */
function Progress({ logs, done }: { readonly logs: string; readonly done: number }) {
  const percent = [...logs.slice(-MAX_LINE).matchAll(/\b(\d{1,3})(?:\.\d+)?\s?%/g)].at(-1)?.[1];
  const share = percent === undefined ? done : Number(percent) / 100;
  return <progress aria-label="Progress" {...(share > 0 && { value: share })} />;
}

/** Number of characters at the end of the logs in which a percentage is searched. */
const MAX_LINE = 10_000;
