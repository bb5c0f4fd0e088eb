/**
 * Follows a run (a demo prediction) by its event stream until it ends. Also polls it while events may be missing: before it starts, while the server
 * is unavailable, and behind a proxy that buffers events.
 */
import type { SchemaNode } from "../../../base/json-schema.ts";
import { eventsOf, hasEnded, type Persistence, persistently, type Run, readRun } from "./api.ts";
import { pause } from "./pause.ts";
import { grownBy, type Json } from "./value.ts";

/** Milliseconds between requests for the state of the run, and before a broken event stream is opened again. */
const POLL_MS = 1000;

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
  const ended = Promise.withResolvers<void>();
  const closing = new AbortController();
  let run = begun;
  let hasEvents = false;
  let isStreaming = false;
  const show = (changed: Run) => {
    run = changed;
    onChange(run);
    if (hasEnded(run)) ended.resolve();
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
  const listen = async (open: AbortSignal) => {
    while (!open.aborted) {
      try {
        for await (const { name, data } of eventsOf(id, open)) {
          hasEvents = isStreaming = true;
          show(takers.get(name)?.(data) ?? run);
        }
      } catch {
        // A broken event stream is opened again after `POLL_MS`.
      }
      isStreaming = false;
      await pause(POLL_MS, open);
    }
  };
  show(begun);
  try {
    listen(AbortSignal.any([signal, closing.signal])).catch(() => {});
    while (!hasEnded(run)) {
      await Promise.race([ended.promise, pause(POLL_MS, signal)]);
      if (hasEnded(run) || (hasEvents && run.status === "running" && isStreaming)) continue;
      const polled = await persistently(() => readRun(id, signal), persistence);
      // Takes only the status from the answer while events arrive, since the events may already have more logs.
      if (!hasEnded(run)) show(hasEvents && !hasEnded(polled) ? { ...run, status: polled.status } : polled);
    }
  } finally {
    closing.abort();
  }
}
