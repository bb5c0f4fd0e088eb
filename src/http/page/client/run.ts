/** Runs of the model on the page, which are demo predictions. The form starts a run, and the id in the page's URL opens one. */
import type { EventSourceMessage } from "eventsource-parser/stream";
import type { Json } from "../../../base/json.ts";
import { cancelRun, eventsOf, type Model, type Persistence, pause, Refusal } from "./api.ts";
import { grownBy, type Value } from "./value.ts";

/** Milliseconds before a broken event stream is opened again. */
const REOPEN_MS = 1000;

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

interface RunnerOptions extends Pick<Persistence, "onUnavailable"> {
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
    // With the key, a repeated request starts no second run. Pages loaded over plain HTTP from another machine have no crypto.randomUUID().
    const key = [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36).padStart(7, "0"));
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key.join("-") };
    this.#follow("demo", { method: "POST", headers, body: JSON.stringify([input]) }, input);
  }

  open(id: string): void {
    this.#follow(`demo/${encodeURIComponent(id)}`, {});
  }

  cancel(): void {
    const { run } = this.#state;
    // The event stream reports the end of the run.
    if (run !== undefined) return void cancelRun(run.demo_id).catch(() => {});
    // The server has not answered the request that creates the run. It creates none if the request is not complete.
    this.#stop();
    this.#show({ ...this.#state, isBusy: false });
  }

  /** Follows a run by its event stream until it ends. Opens the stream again when it breaks. */
  async #follow(path: string, init: RequestInit, input?: Value): Promise<void> {
    this.#stop();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const { onUnavailable, part } = this.#options;
    this.#show({ input, isBusy: true });
    let run: Run | undefined;
    try {
      while (run === undefined || !hasEnded(run)) {
        const [to, request]: [string, RequestInit] = run === undefined ? [path, init] : [`demo/${run.demo_id}`, {}];
        for await (const message of eventsOf(to, request, { signal, onUnavailable })) {
          run = afterEvent(run, message, part);
          if (run === undefined) continue;
          history.replaceState(null, "", `#id=${run.demo_id}`);
          this.#show({ input, run, isBusy: !hasEnded(run) });
        }
        if (run === undefined || !hasEnded(run)) await pause(REOPEN_MS, signal);
      }
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(String(error));
      if (!signal.aborted) this.#show({ input, run, isBusy: false, refusal });
    }
  }

  #stop(): void {
    this.#abort.abort();
    this.#options.onUnavailable(undefined);
  }

  #show(state: RunState): void {
    this.#state = state;
    this.#options.onChange(state);
  }
}

/** The run after one of its events. A stream begins with `start` and then has all events, so `start` replaces what the page has of the run. */
function afterEvent(run: Run | undefined, { event, data }: EventSourceMessage, schema: Model["part"]): Run | undefined {
  if (event === "start" || event === "completed") return JSON.parse(data);
  if (run === undefined || event === "loading") return run;
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
