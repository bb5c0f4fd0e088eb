/** Shows the result of a run (a demo prediction): its status, logs and faults, and the outputs of each input. */
import { useEffect, useRef } from "preact/hooks";
import { hasEnded, type Model, type Refusal, type Run } from "./api.ts";
import { OtherKey } from "./api-key.tsx";
import { Clock } from "./clock.tsx";
import { CopyButton } from "./copy-button.tsx";
import { Output } from "./output.tsx";
import type { RunState } from "./run.ts";
import { firstText, isObject, isPicture, type Json, type Value } from "./value.ts";

export function Result({ model, state }: { readonly model: Model; readonly state: RunState }) {
  const { run, inputs, refusal, isBusy } = state;
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Scrolls to the result when a run begins: on a narrow screen, it may be out of sight below a long form.
    const top = panel.current?.getBoundingClientRect().top ?? 0;
    if (isBusy && (top < 0 || top > innerHeight / 2)) panel.current?.scrollIntoView();
  }, [isBusy]);
  const { outputs: whole, partial_outputs: partial = [], grown = [], demo_outputs: demo = [] } = run ?? {};
  const outputs: readonly (Json | undefined)[] = whole ?? partial;
  const parts = whole === undefined ? grown : [];
  const count = Math.max(inputs?.length ?? 0, outputs.length, parts.length);
  const done = whole === undefined ? outputs.filter((each) => each !== undefined && each !== null).length : count;
  return (
    <section ref={panel} class="panel stack result" aria-labelledby="result-title">
      <header class="row ends">
        <h2 id="result-title">Result</h2>
        <Status state={state} />
      </header>
      {run !== undefined && inputs === undefined && (
        <p class="notice">This result was opened by its link. The form has another input.</p>
      )}
      {isBusy && <progress aria-label="Progress" {...(done > 0 && { value: done / count })} />}
      {refusal !== undefined && (
        <p class="notice bad" role="alert">
          {textOf(refusal, state)}
        </p>
      )}
      {refusal?.status === 403 && <OtherKey />}
      {run?.status === "failed" && !isCanceled(run) && (
        <div class="notice bad" role="alert">
          {run.errors === undefined
            ? run.error_message
            : run.errors.map(({ index, message }) => (
                <p key={index}>
                  Input {index + 1}: {message}
                </p>
              ))}
        </div>
      )}
      {Array.from({ length: count }, (_, i) => {
        const [output, part] = [outputs[i] ?? (whole && null), parts[i]];
        const isOutput = output !== undefined && (output !== null || whole !== undefined);
        if (!isOutput && part === undefined) return null;
        const picture = firstText(inputs?.[i], isPicture);
        return (
          <article key={i} class="item stack close" aria-label={count > 1 ? `Input ${i + 1}` : undefined}>
            {count > 1 && <h3>Input {i + 1}</h3>}
            {isOutput ? (
              <ItemOutputs {...{ model, output, picture }} shown={demo[i] ?? output} />
            ) : (
              <Output value={part ?? null} schema={model.part} label="Output so far" />
            )}
          </article>
        );
      })}
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
        <div class="under row ends">
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
  const isSame = (one: Value, other: Value) => JSON.stringify(one) === JSON.stringify(other);
  const whole = <Output value={output} schema={model.output} label="Output" picture={picture} />;
  if (isSame(output, shown)) return whole;
  // Shows only members of the demo output that differ from the same members of the output.
  const known = isObject(output) ? output : {};
  const more = isObject(shown)
    ? Object.fromEntries(Object.entries(shown).filter(([name, value]) => !isSame(value, known[name])))
    : shown;
  return (
    <div class="grid">
      <Output value={more} schema={model.demoOutput} label="Demo output" picture={picture} />
      {whole}
    </div>
  );
}

/** Why the server refused to create or read a run, for people. */
function textOf({ status, message }: Refusal, { run, inputs }: RunState): string {
  if (status === 422) return "Some fields need another value. Each shows its fault.";
  if (status !== 404) return message;
  return run === undefined && inputs === undefined
    ? "The server no longer has this result."
    : "The server no longer has this run: it was restarted, or the run is too old. Run it again.";
}

function isCanceled({ status, error_message }: Run): boolean {
  return status === "failed" && error_message === "Canceled";
}

function Status({ state: { run, isBusy, refusal } }: { readonly state: RunState }) {
  const [text, kind] = isBusy
    ? [run?.status === "running" ? "Running" : "Waiting for its turn", "busy"]
    : refusal !== undefined
      ? ["Refused", "bad"]
      : run === undefined
        ? ["", ""]
        : run.status === "success"
          ? ["Done", "good"]
          : [isCanceled(run) ? "Canceled" : "Failed", "bad"];
  return (
    <p class={`status row ${kind}`}>
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
