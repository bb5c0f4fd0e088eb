/** Shows the result of a run (a demo prediction): its status, logs and faults, and its output. */
import { useEffect, useRef } from "preact/hooks";
import { isObject, type Json } from "../../../base/json.ts";
import type { Model } from "./api.ts";
import { Output } from "./output.tsx";
import { hasEnded, type RunState } from "./run.ts";
import { firstText, isPicture } from "./value.ts";

export function Result({ model, state }: { readonly model: Model; readonly state: RunState }) {
  const { run, input, refusal, isBusy } = state;
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Scrolls to the result when a run begins: on a narrow screen, it may be out of sight below a long form.
    const top = panel.current?.getBoundingClientRect().top ?? 0;
    if (isBusy && (top < 0 || top > innerHeight / 2)) panel.current?.scrollIntoView();
  }, [isBusy]);
  const { outputs: [output] = [], grown, demo_outputs: [demo] = [], errors: [fault] = [] } = run ?? {};
  const [text, kind] = statusOf(state);
  const picture = firstText(input, isPicture);
  const problem =
    refusal?.message.replaceAll("/0/", "") ?? (text === "Failed" && (fault?.message ?? run?.error_message));
  // The page shows only members of the demo output that differ from the output's.
  const more = output !== undefined && changed(demo, output);
  return (
    <article ref={panel} class="result" aria-labelledby="result-title">
      <div class="row ends">
        <h2 id="result-title">Result</h2>
        <p class={`status ${kind}`}>
          <span role="status">{text}</span> <small>{isBusy ? "" : tookOf(state)}</small>
        </p>
      </div>
      {isBusy && <progress aria-label="Progress" />}
      {problem && (
        <p class="notice bad prose" role="alert">
          {problem}
        </p>
      )}
      <div class="grid">
        {more && <Output value={more} schema={model.demoOutput} label="Demo output" picture={picture} />}
        {output !== undefined && <Output value={output} schema={model.output} label="Output" picture={picture} />}
        {output === undefined && grown !== undefined && (
          <Output value={grown} schema={model.part} label="Output so far" />
        )}
      </div>
      {text === "" && <small>The result appears here. The form has an example: run it.</small>}
      {run !== undefined && run.logs !== "" && (
        <details class="logs" open={!hasEnded(run) || run.status === "failed"}>
          <summary>Logs</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it may scroll, also by keys */}
          <pre role="log" aria-label="Logs" tabIndex={0}>
            {run.logs}
          </pre>
        </details>
      )}
    </article>
  );
}

/** The members of the first value that the second one has not; undefined if there are none. */
function changed(value: Json | undefined, known: Json): Json | undefined {
  if (!isObject(value) || !isObject(known)) return JSON.stringify(value) === JSON.stringify(known) ? undefined : value;
  const members = Object.entries(value).filter(([name, each]) => JSON.stringify(each) !== JSON.stringify(known[name]));
  return members.length === 0 ? undefined : Object.fromEntries(members);
}

/** The status of a run as a word, and its CSS class. */
function statusOf({ run, isBusy, refusal }: RunState): readonly [text: string, kind: string] {
  if (isBusy) return [run?.status === "running" ? "Running" : "Waiting for its turn", "busy"];
  if (refusal !== undefined) return ["Refused", "bad"];
  if (run === undefined) return ["", ""];
  if (run.status === "success") return ["Done", "good"];
  return [run.error_message === "Canceled" ? "Canceled" : "Failed", "bad"];
}

function tookOf({ run, refusal }: RunState): string {
  if (run?.finished_at === undefined || refusal !== undefined) return "";
  const ms = Date.parse(run.finished_at) - Date.parse(run.created_at);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}
