/** Runs of the model on the page, which are demo predictions. The form starts a run, and the id in the page's URL opens one. */
import {
  cancelRun,
  createRun,
  eventsOf,
  hasEnded,
  type Model,
  newIdempotencyKey,
  type Persistence,
  pause,
  persistently,
  Refusal,
  type Run,
  readRun,
} from "./api.ts";
import type { StreamEvent } from "./events.ts";
import { grownBy, type Json, type Value } from "./value.ts";

/** Milliseconds before a broken event stream is opened again. */
const REOPEN_MS = 1000;

/** The run that the page shows. */
export interface RunState {
  /** Undefined if the run was opened by a link. */
  readonly inputs?: readonly Value[] | undefined;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why the server refused to create or read the run. */
  readonly refusal?: Refusal | undefined;
}

interface RunnerOptions extends Pick<Persistence, "onUnavailable"> {
  readonly part: Model["part"];
  readonly onChange: (state: RunState) => void;
}

export const idle: RunState = { isBusy: false };

export class Runner {
  readonly #options: RunnerOptions;
  #state = idle;
  #abort = new AbortController();

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  start(inputs: readonly Value[]): void {
    const key = newIdempotencyKey();
    this.#begin(inputs, async (persistence) => {
      const { signal } = persistence;
      const run = await persistently(() => createRun(inputs, { key, signal }), persistence);
      history.replaceState(null, "", `#id=${run.demo_id}`);
      return run;
    });
  }

  open(id: string): void {
    this.#begin(undefined, (persistence) => persistently(() => readRun(id, persistence.signal), persistence));
  }

  cancel(): void {
    const { run } = this.#state;
    // Ignores the answer: the event stream reports the end of the run.
    if (run !== undefined) return void cancelRun(run.demo_id).catch(() => {});
    // The server has not answered the request that creates the run. It creates none if the request is not complete.
    this.#stop();
    this.#show({ ...this.#state, isBusy: false });
  }

  #begin(inputs: RunState["inputs"], create: (persistence: Persistence) => Promise<Run>): void {
    this.#stop();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const persistence = { signal, onUnavailable: this.#options.onUnavailable };
    const show = (state: Omit<RunState, "inputs">) => signal.aborted || this.#show({ inputs, ...state });
    show({ isBusy: true });
    create(persistence)
      .then((run) => this.#follow(run, (run) => show({ run, isBusy: !hasEnded(run) }), persistence))
      .catch((error: unknown) => {
        const refusal = error instanceof Refusal ? error : new Refusal(500, String(error));
        show({ run: this.#state.run, isBusy: false, refusal });
      });
  }

  /** Follows a run by its event stream until it ends. Reads the run when the stream breaks, and then opens the stream again. */
  async #follow(begun: Run, show: (run: Run) => void, persistence: Persistence): Promise<void> {
    const { signal } = persistence;
    let run = begun;
    show(run);
    while (!hasEnded(run)) {
      try {
        for await (const event of eventsOf(run.demo_id, signal)) {
          run = afterEvent(run, event, this.#options.part);
          show(run);
        }
      } catch {
        // The connection was lost. The run is read below, and its events again after a pause.
      }
      if (hasEnded(run)) return;
      run = await persistently(() => readRun(begun.demo_id, signal), persistence);
      show(run);
      if (!hasEnded(run)) await pause(REOPEN_MS, signal);
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
function afterEvent(run: Run, { name, data }: StreamEvent, schema: Model["part"]): Run {
  if (name === "start" || name === "completed") return JSON.parse(data);
  const value: EventData = JSON.parse(data);
  if (typeof value === "string") return { ...run, status: "running", logs: run.logs + value };
  const { index, output, sequence, part } = value;
  const partial_outputs = [...(run.partial_outputs ?? [])];
  const grown = [...(run.grown ?? [])];
  if (output !== undefined) partial_outputs[index] = output;
  // Sequence number 0: the parts of this input begin, or begin again because the input runs again.
  if (part !== undefined) grown[index] = grownBy(schema, sequence === 0 ? undefined : grown[index], part);
  return { ...run, status: "running", partial_outputs, grown };
}

/** The data of an event: a text for `log`, an output for `output`, a part of one for `part`. */
type EventData =
  | string
  | { readonly index: number; readonly output?: Json; readonly sequence?: number; readonly part?: Json };
