/** The run that the page shows: begun by its form, or opened by the id in its address. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { cancelRun, createRun, hasEnded, type Persistence, persistently, Refusal, type Run, readRun } from "./api.ts";
import { follow } from "./follow.ts";
import type { Value } from "./value.ts";

/** Why an input of the form failed. */
export interface InputFailure {
  /** In the form. */
  readonly index: number;
  readonly message: string;
}

export interface RunState {
  /** The places in the form of the run's inputs. Inputs that fail leave: the others are run without them. */
  readonly places: readonly number[];
  readonly failures: readonly InputFailure[];
  /** What it was begun with, where this browser knows. */
  readonly inputs?: readonly Value[] | undefined;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why there is none, or none any more. */
  readonly refusal?: Refusal | undefined;
}

export interface RunControl extends RunState {
  start(inputs: readonly Value[]): void;
  /** Shows no run any more. */
  reset(): void;
  open(id: string, inputs?: readonly Value[]): void;
  cancel(): void;
}

export interface RunOptions {
  readonly onAway: Persistence["onAway"];
  /** Told when a run was accepted, and when it ended. */
  readonly onRun: (run: Run, inputs: readonly Value[] | undefined) => void;
}

const nothing: RunState = { places: [], failures: [], isBusy: false };

export function useRun({ onAway, onRun }: RunOptions): RunControl {
  const [state, setState] = useState<RunState>(nothing);
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);

  const create = useCallback(
    async (inputs: readonly Value[], signal: AbortSignal) => {
      const run = await persistently(() => createRun(inputs, signal), { signal, onAway });
      history.replaceState(null, "", `#id=${run.demo_id}`);
      onRun(run, inputs);
      return run;
    },
    [onAway, onRun],
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
        const failed = run.errors?.map(({ index, message }) => ({ index: places[index] ?? index, message })) ?? [];
        const all = [...failures, ...failed];
        setState({ inputs, places, failures: all, run, isBusy: !hasEnded(run) });
        if (!hasEnded(run)) return;
        onRun(run, inputs);
        // A demo fails as a whole. The other inputs have a result without those that failed.
        const left = places.filter((place) => failed.every(({ index }) => index !== place));
        if (failed.length > 0 && left.length > 0 && inputs !== undefined) {
          const others = left.map((place) => inputs[places.indexOf(place)]);
          beginRef.current?.(others, (next) => create(others, next), { places: left, failures: all });
        }
      };
      made(signal)
        .then((run) => follow(run, show, { signal, onAway }))
        .catch((error: unknown) => {
          if (signal.aborted) return;
          const refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
          setState((before) => ({ ...before, isBusy: false, refusal }));
        });
    },
    [create, onAway, onRun],
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
      begin(inputs, (signal) => persistently(() => readRun(id, signal), { signal, onAway })),
    [begin, onAway],
  );

  const cancel = useCallback(() => {
    const { run } = state;
    if (run !== undefined) {
      // Who follows it sees its end.
      cancelRun(run.demo_id).catch(() => {});
      return;
    }
    // Not accepted yet: a client that leaves before it was given an id cancels.
    current.current.abort();
    setState((before) => ({ ...before, run: undefined, isBusy: false }));
  }, [state]);

  return { ...state, start, reset, open, cancel };
}
