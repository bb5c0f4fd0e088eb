/** The run (a demo prediction) that the page shows. The form starts a run, and the id in the page's URL opens one. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import {
  cancelRun,
  createRun,
  hasEnded,
  type ItemFault,
  type Model,
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
  /** Undefined if the run was opened by a link, and this browser does not know its inputs. */
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
  open(id: string, inputs?: readonly Value[]): void;
  cancel(): void;
}

export interface RunOptions {
  readonly part: Model["part"];
  readonly onUnavailable: Persistence["onUnavailable"];
  /** Called when the server has accepted a run, and when the run has ended. */
  readonly onRun: (run: Run, inputs: readonly Value[] | undefined) => void;
}

function inForm({ index, message, pointer = "" }: ItemFault, places: readonly number[]): Required<ItemFault> {
  const place = places[index] ?? index;
  return { index: place, message, pointer: `/${place}${pointer.replace(/^\/\d+/, "")}` };
}

const nothing: RunState = { places: [], failures: [], isBusy: false };

export function useRun({ part, onUnavailable, onRun }: RunOptions): RunControl {
  const [state, setState] = useState<RunState>(nothing);
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);

  const create = useCallback(
    async (inputs: readonly Value[], signal: AbortSignal) => {
      const run = await persistently(() => createRun(inputs, signal), { signal, onUnavailable });
      history.replaceState(null, "", `#id=${run.demo_id}`);
      onRun(run, inputs);
      return run;
    },
    [onUnavailable, onRun],
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
        onRun(run, inputs);
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
    [create, part, onUnavailable, onRun],
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
    (id: string, inputs?: readonly Value[]) =>
      begin(inputs, (signal) => persistently(() => readRun(id, signal), { signal, onUnavailable })),
    [begin, onUnavailable],
  );

  const cancel = useCallback(() => {
    const { run } = state;
    if (run !== undefined) {
      // Ignores the answer: the event stream reports the end of the run.
      cancelRun(run.demo_id).catch(() => {});
      return;
    }
    // The server has not answered the request that creates the run. Aborting the request cancels the run.
    current.current.abort();
    setState((before) => ({ ...before, run: undefined, isBusy: false }));
  }, [state]);

  return { ...state, start, reset, open, cancel };
}
