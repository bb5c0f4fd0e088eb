/**
 * Follows a run to its end by its events. It is asked for where these say nothing: until it is dispatched, while the server is away, and behind
 * a proxy that keeps events back.
 */
import { eventsOf, hasEnded, type Persistence, persistently, type Run, readRun } from "./api.ts";
import { pause } from "./pause.ts";
import type { Json } from "./value.ts";

const ASK_AGAIN_MS = 1000;

export async function follow(begun: Run, onChange: (run: Run) => void, persistence: Persistence): Promise<void> {
  const { signal } = persistence;
  const { demo_id: id } = begun;
  const ended = Promise.withResolvers<void>();
  let run = begun;
  let isHeard = false;
  let source: EventSource | undefined;
  const show = (changed: Run) => {
    run = changed;
    onChange(run);
    if (hasEnded(run)) ended.resolve();
  };
  const listen = () => {
    const events = eventsOf(id);
    const on = <T>(name: string, take: (data: T) => Run) =>
      events.addEventListener(name, ({ data }) => {
        isHeard = true;
        show(take(JSON.parse(data)));
      });
    // Also from a server that was started again: the rest follows anew.
    on("start", (started: Run) => started);
    on("log", (text: string): Run => ({ ...run, status: "running", logs: run.logs + text }));
    on("output", ({ index, output }: { readonly index: number; readonly output: Json }): Run => {
      const partial_outputs = [...(run.partial_outputs ?? [])];
      partial_outputs[index] = output;
      return { ...run, status: "running", partial_outputs };
    });
    on("completed", (all: Run) => all);
    return events;
  };
  show(begun);
  try {
    while (!hasEnded(run)) {
      if (source === undefined || source.readyState === EventSource.CLOSED) source = listen();
      await Promise.race([ended.promise, pause(ASK_AGAIN_MS, signal)]);
      if (hasEnded(run) || (isHeard && run.status === "running" && source.readyState === EventSource.OPEN)) continue;
      const asked = await persistently(() => readRun(id, signal), persistence);
      // Of its logs events may have told more since.
      if (!hasEnded(run)) show(isHeard && !hasEnded(asked) ? { ...run, status: asked.status } : asked);
    }
  } finally {
    source?.close();
  }
}
