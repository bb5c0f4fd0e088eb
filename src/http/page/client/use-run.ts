/** The run (a demo prediction) that the page shows. The form starts a run, and the id in the page's URL opens one. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import {
  cancelRun,
  createRun,
  hasEnded,
  type ItemFault,
  type Model,
  newIdempotencyKey,
  type Persistence,
  persistently,
  Refusal,
  type Run,
  readRun,
} from "./api.ts";
import { follow } from "./follow.ts";
import type { Value } from "./value.ts";

export interface RunState {
  /** For each input of the run, its index in the form. They differ if the run repeats only some inputs of the form. */
  readonly places: readonly number[];
  /** Failed inputs, with their indices in the form. */
  readonly failures: readonly ItemFault[];
  /** Undefined if the run was opened by a link. */
  readonly inputs?: readonly Value[] | undefined;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why the server refused to create or read the run. */
  readonly refusal?: Refusal | undefined;
}

export interface RunControl extends RunState {
  start(inputs: readonly Value[]): void;
  /** Removes the run from the page. */
  reset(): void;
  open(id: string): void;
  cancel(): void;
}

export interface RunOptions {
  readonly part: Model["part"];
  readonly onUnavailable: Persistence["onUnavailable"];
}

function inForm({ index, message, pointer = "" }: ItemFault, places: readonly number[]): Required<ItemFault> {
  const place = places[index] ?? index;
  return { index: place, message, pointer: `/${place}${pointer.replace(/^\/\d+/, "")}` };
}

const nothing: RunState = { places: [], failures: [], isBusy: false };

export function useRun({ part, onUnavailable }: RunOptions): RunControl {
  const [state, setState] = useState<RunState>(nothing);
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);

  const create = useCallback(
    async (inputs: readonly Value[], signal: AbortSignal) => {
      const key = newIdempotencyKey();
      const run = await persistently(() => createRun(inputs, { key, signal }), { signal, onUnavailable });
      history.replaceState(null, "", `#id=${run.demo_id}`);
      return run;
    },
    [onUnavailable],
  );

  const begin = useCallback(
    (
      inputs: readonly Value[] | undefined,
      made: (signal: AbortSignal) => Promise<Run>,
      { places = inputs?.keys().toArray() ?? [], failures = [] }: Partial<Pick<RunState, "places" | "failures">> = {},
    ) => {
      current.current.abort();
      current.current = new AbortController();
      const { signal } = current.current;
      setState({ inputs, places, failures, isBusy: true });
      const show = (run: Run) => {
        if (signal.aborted) return;
        const failed = run.errors?.map((fault) => inForm(fault, places)) ?? [];
        const all = [...failures, ...failed];
        setState({ inputs, places, failures: all, run, isBusy: !hasEnded(run) });
        if (!hasEnded(run)) return;
        // A demo fails as a whole if one input fails, so the page runs the other inputs again.
        const remaining = places.filter((place) => failed.every(({ index }) => index !== place));
        if (failed.length > 0 && remaining.length > 0 && inputs !== undefined) {
          const others = remaining.map((place) => inputs[places.indexOf(place)]);
          beginRef.current?.(others, (next) => create(others, next), { places: remaining, failures: all });
        }
      };
      made(signal)
        .then((run) => follow(run, show, { signal, onUnavailable, part }))
        .catch((error: unknown) => {
          if (signal.aborted) return;
          const refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
          setState((before) => ({ ...before, isBusy: false, refusal }));
        });
    },
    [create, part, onUnavailable],
  );
  const beginRef = useRef(begin);
  beginRef.current = begin;

  const start = useCallback(
    (inputs: readonly Value[]) => begin(inputs, (signal) => create(inputs, signal)),
    [begin, create],
  );

  const reset = useCallback(() => {
    current.current.abort();
    history.replaceState(null, "", location.pathname + location.search);
    setState(nothing);
  }, []);

  const open = useCallback(
    (id: string) => begin(undefined, (signal) => persistently(() => readRun(id, signal), { signal, onUnavailable })),
    [begin, onUnavailable],
  );

  const cancel = useCallback(() => {
    const { run } = state;
    if (run !== undefined) {
      // Ignores the answer: the event stream reports the end of the run.
      cancelRun(run.demo_id).catch(() => {});
      return;
    }
    // The server has not answered the request that creates the run. It creates none if the request is not complete.
    current.current.abort();
    setState((before) => ({ ...before, run: undefined, isBusy: false }));
  }, [state]);

  return { ...state, start, reset, open, cancel };
}
