/** Runs of the model on the page, which are demo predictions with one input. */
import type { EventSourceMessage } from "eventsource-parser/stream";
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

interface RunnerOptions {
  readonly part: Model["part"];
  readonly onChange: (state: RunState) => void;
}

export const idle: RunState = { isBusy: false };

export function hasEnded({ status }: Run): boolean {
  return status === "success" || status === "failed";
}

export class Runner {
  readonly #options: RunnerOptions;
  #state = idle;
  #abort = new AbortController();

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  cancel(): void {
    const { run } = this.#state;
    // The event stream reports the end of the run.
    if (run !== undefined) return void cancelRun(run.demo_id).catch(() => {});
    // The server has not answered the request that creates the run. It cancels the run of a client that disconnects.
    this.#abort.abort();
    this.#show({ ...this.#state, isBusy: false });
  }

  /** Starts a run, and follows its event stream until it ends. */
  async start(input: Value): Promise<void> {
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const headers = { "Content-Type": "application/json" };
    this.#show({ input, isBusy: true });
    let run: Run | undefined;
    try {
      for await (const message of eventsOf("demo", {
        method: "POST",
        headers,
        body: JSON.stringify([input]),
        signal,
      })) {
        run = afterEvent(run, message, this.#options.part);
        if (run !== undefined) this.#show({ input, run, isBusy: !hasEnded(run) });
      }
      if (run === undefined || !hasEnded(run)) throw new Refusal("The connection to the server ended. Run again.");
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(String(error));
      if (!signal.aborted) this.#show({ input, run, isBusy: false, refusal });
    }
  }

  #show(state: RunState): void {
    this.#state = state;
    this.#options.onChange(state);
  }
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
