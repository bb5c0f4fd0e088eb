/**
 * Follows a run (a demo prediction) by its event stream until it ends. Also polls it while events may be missing: before it starts, while the server
 * is unavailable, and behind a proxy that buffers events.
 */
import type { SchemaNode } from "../../../base/json-schema.ts";
import { eventsOf, hasEnded, type Persistence, persistently, type Run, readRun } from "./api.ts";
import { pause } from "./pause.ts";
import type { RunEvents } from "./run-events.ts";
import { grownBy, type Json } from "./value.ts";

/** Milliseconds between polls. */
const POLL_MS = 1000;

export interface FollowOptions extends Persistence {
  /** Schema of the pieces of an output that the event `part` has. */
  readonly part: SchemaNode | undefined;
}

export async function follow(
  begun: Run,
  onChange: (run: Run) => void,
  { part: schema, ...persistence }: FollowOptions,
): Promise<void> {
  const { signal } = persistence;
  const { demo_id: id } = begun;
  const ended = Promise.withResolvers<void>();
  let run = begun;
  let hasEvents = false;
  let source: RunEvents | undefined;
  const show = (changed: Run) => {
    run = changed;
    onChange(run);
    if (hasEnded(run)) ended.resolve();
  };
  const listen = () => {
    const events = eventsOf(id);
    const on = <T>(name: string, take: (data: T) => Run) =>
      events.addEventListener(name, ({ data }) => {
        hasEvents = true;
        show(take(JSON.parse(data)));
      });
    // After a restart, the server sends `start` again, and then all events from the beginning.
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
    return events;
  };
  show(begun);
  try {
    while (!hasEnded(run)) {
      if (source === undefined || source.readyState === EventSource.CLOSED) source = listen();
      await Promise.race([ended.promise, pause(POLL_MS, signal)]);
      if (hasEnded(run) || (hasEvents && run.status === "running" && source.readyState === EventSource.OPEN)) continue;
      const polled = await persistently(() => readRun(id, signal), persistence);
      // While events arrive, only the status is taken from the answer, since the events may already have more logs.
      if (!hasEnded(run)) show(hasEvents && !hasEnded(polled) ? { ...run, status: polled.status } : polled);
    }
  } finally {
    source?.close();
  }
}
