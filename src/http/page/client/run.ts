/** Runs of the model on the page, which are demo predictions. The form starts a run, and the id in the page's URL opens one. */
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
  /** Outputs so far, also after a failure; null for inputs without an output. */
  readonly partial_outputs?: readonly Json[];
  /** For each input, the parts so far, joined to one value. Parts come from the event stream, not from the JSON of the run. */
  readonly grown?: readonly (Json | undefined)[];
  readonly error_message?: string;
  /** The inputs that failed. `pointer` is a JSON pointer to the faulty field, if it is known. */
  readonly errors?: readonly { readonly index: number; readonly message: string; readonly pointer?: string }[];
  readonly logs: string;
  readonly created_at: string;
  readonly finished_at?: string;
}

/** The run that the page shows. */
export interface RunState {
  /** Undefined if the run was opened by a link. */
  readonly input?: Value;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why the server refused to create or read the run. */
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

  start(input: Value): void {
    const headers = { "Content-Type": "application/json" };
    this.#follow("demo", { method: "POST", headers, body: JSON.stringify([input]) }, input);
  }

  open(id: string): void {
    this.#follow(`demo/${encodeURIComponent(id)}`, {});
  }

  cancel(): void {
    const { run } = this.#state;
    // The event stream reports the end of the run.
    if (run !== undefined) return void cancelRun(run.demo_id).catch(() => {});
    // The server has not answered the request that creates the run. It cancels the run of a client that disconnects.
    this.#abort.abort();
    this.#show({ ...this.#state, isBusy: false });
  }

  /** Follows a run by its event stream until it ends. */
  async #follow(path: string, init: RequestInit, input?: Value): Promise<void> {
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#show({ input, isBusy: true });
    let run: Run | undefined;
    try {
      for await (const message of eventsOf(path, { ...init, signal })) {
        run = afterEvent(run, message, this.#options.part);
        if (run === undefined) continue;
        history.replaceState(null, "", `#id=${run.demo_id}`);
        this.#show({ input, run, isBusy: !hasEnded(run) });
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

/** The run after one of its events. A stream begins with `start` and then has all events, so `start` replaces what the page has of the run. */
function afterEvent(run: Run | undefined, { event, data }: EventSourceMessage, schema: Model["part"]): Run | undefined {
  if (event === "start" || event === "completed") return JSON.parse(data);
  if (run === undefined) return run;
  if (event === "log") return { ...run, status: "running", logs: run.logs + JSON.parse(data) };
  const { index, output, sequence, part }: EventData = JSON.parse(data);
  const partial_outputs = [...(run.partial_outputs ?? [])];
  const grown = [...(run.grown ?? [])];
  if (output !== undefined) partial_outputs[index] = output;
  // Sequence number 0: the parts of this input begin, or begin again because the input runs again.
  if (part !== undefined) grown[index] = grownBy(schema, sequence === 0 ? undefined : grown[index], part);
  return { ...run, status: "running", partial_outputs, grown };
}

/** The data of the events `output` and `part`. */
interface EventData {
  readonly index: number;
  readonly output?: Json;
  readonly sequence?: number;
  readonly part?: Json;
}
