/** Follows a run (a demo prediction) by its event stream until it ends. Reads the run when the stream breaks, and then opens the stream again. */
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { eventsOf, hasEnded, type Persistence, persistently, type Run, readRun } from "./api.ts";
import { pause } from "./pause.ts";
import { grownBy, type Json } from "./value.ts";

/** Milliseconds before a broken event stream is opened again. */
const REOPEN_MS = 1000;

export interface FollowOptions extends Persistence {
  /** Schema of a part of an output, which the event `part` has. */
  readonly part: SchemaNode | undefined;
}

export async function follow(
  begun: Run,
  onChange: (run: Run) => void,
  { part: schema, ...persistence }: FollowOptions,
): Promise<void> {
  const { signal } = persistence;
  const { demo_id: id } = begun;
  let run = begun;
  const show = (changed: Run) => {
    run = changed;
    onChange(run);
  };
  const takers = new Map<string, (data: string) => Run>();
  const on = <T>(name: string, take: (data: T) => Run) => takers.set(name, (data) => take(JSON.parse(data)));
  // Each new stream begins with `start` and has all events, so `start` replaces what the page has of the run.
  on("start", (started: Run) => started);
  on("log", (text: string): Run => ({ ...run, status: "running", logs: run.logs + text }));
  on("output", ({ index, output }: { readonly index: number; readonly output: Json }): Run => {
    const partial_outputs = [...(run.partial_outputs ?? [])];
    partial_outputs[index] = output;
    return { ...run, status: "running", partial_outputs };
  });
  on(
    "part",
    ({ index, sequence, part }: { readonly index: number; readonly sequence: number; readonly part: Json }) => {
      const grown = [...(run.grown ?? [])];
      // Sequence number 0: the parts of this input begin, or begin again because the input runs again.
      grown[index] = grownBy(schema, sequence === 0 ? undefined : grown[index], part);
      return { ...run, status: "running", grown };
    },
  );
  on("completed", (all: Run) => all);
  show(begun);
  while (!hasEnded(run)) {
    try {
      for await (const { name, data } of eventsOf(id, signal)) show(takers.get(name)?.(data) ?? run);
    } catch {
      // The connection was lost. The run is read below, and its events again after a pause.
    }
    if (hasEnded(run)) return;
    show(await persistently(() => readRun(id, signal), persistence));
    if (!hasEnded(run)) await pause(REOPEN_MS, signal);
  }
}
