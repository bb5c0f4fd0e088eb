/** Runs of the model on the page, which are demo predictions with one input. */
import type { EventSourceMessage } from "eventsource-parser/stream";
import { useRef, useState } from "preact/hooks";
import type { Json } from "../../../base/json.ts";
import { cancelRun, eventsOf, type Model, Refusal } from "./api.ts";
import { grownBy, type Value } from "./value.ts";

/** A demo prediction in the server's JSON. */
export interface Run {
  readonly demo_id: string;
  readonly status: "pending" | "running" | "success" | "failed";
  readonly outputs?: readonly Json[];
  readonly demo_outputs?: readonly Json[];
  /** The parts so far, joined to one value. Parts come from the event stream, not from the JSON of the run. */
  readonly grown?: Json;
  readonly error_message?: string;
  /** Why the input failed. `pointer` is a JSON pointer to the faulty field, if it is known. */
  readonly errors?: readonly { readonly message: string; readonly pointer?: string }[];
  readonly logs: string;
  readonly created_at: string;
  readonly finished_at?: string;
}

/** The run that the page shows. */
export interface RunState {
  readonly input?: Value;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why the server refused to create the run. */
  readonly refusal?: Refusal;
}

export function hasEnded({ status }: Run): boolean {
  return status === "success" || status === "failed";
}

/** The state of the page's run, with functions that start and cancel a run. @param part schema of the parts of the output */
export function useRun(part: Model["part"]) {
  const [state, setState] = useState<RunState>({ isBusy: false });
  const abort = useRef(new AbortController());

  /** Starts a run, and follows its event stream until it ends. */
  const start = async (input: Value): Promise<void> => {
    abort.current.abort();
    abort.current = new AbortController();
    const { signal } = abort.current;
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify([input]);
    setState({ input, isBusy: true });
    let run: Run | undefined;
    try {
      for await (const message of eventsOf("demo", { method: "POST", headers, body, signal })) {
        run = afterEvent(run, message, part);
        if (run !== undefined) setState({ input, run, isBusy: !hasEnded(run) });
      }
      if (run === undefined || !hasEnded(run)) throw new Refusal("The connection to the server ended. Run again.");
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(String(error));
      if (!signal.aborted) setState({ input, run, isBusy: false, refusal });
    }
  };

  const cancel = (): void => {
    // The event stream reports the end of the run.
    if (state.run !== undefined) return void cancelRun(state.run.demo_id).catch(() => {});
    // The server has not answered the request that creates the run. A disconnect cancels the run.
    abort.current.abort();
    setState({ ...state, isBusy: false });
  };

  return { state, start, cancel };
}

/** The run after one of its events. */
function afterEvent(run: Run | undefined, { event, data }: EventSourceMessage, schema: Model["part"]): Run | undefined {
  if (event === "start" || event === "completed") return JSON.parse(data);
  if (run === undefined) return run;
  if (event === "log") return { ...run, status: "running", logs: run.logs + JSON.parse(data) };
  const { output, sequence, part }: EventData = JSON.parse(data);
  if (part === undefined) return { ...run, status: "running", outputs: [output ?? null] };
  // Sequence number 0: the parts begin, or begin again because the input runs again.
  return { ...run, status: "running", grown: grownBy(schema, sequence === 0 ? undefined : run.grown, part) };
}

/** The data of the events `output` and `part`. */
interface EventData {
  readonly output?: Json;
  readonly sequence?: number;
  readonly part?: Json;
}
