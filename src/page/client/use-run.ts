/** The run that the page shows: begun by its form, or opened by the id in its address. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { cancelRun, createRun, hasEnded, type Persistence, persistently, Refusal, type Run, readRun } from "./api.ts";
import { follow } from "./follow.ts";
import type { Value } from "./value.ts";

export interface RunState {
  /** What it was begun with, where this browser knows. */
  readonly inputs?: readonly Value[] | undefined;
  readonly run?: Run | undefined;
  readonly isBusy: boolean;
  /** Why there is none, or none any more. */
  readonly refusal?: Refusal | undefined;
}

export interface RunControl extends RunState {
  start(inputs: readonly Value[]): void;
  open(id: string, inputs?: readonly Value[]): void;
  cancel(): void;
}

export interface RunOptions {
  readonly onAway: Persistence["onAway"];
  /** Told when a run was accepted, and when it ended. */
  readonly onRun: (run: Run, inputs: readonly Value[] | undefined) => void;
}

export function useRun({ onAway, onRun }: RunOptions): RunControl {
  const [state, setState] = useState<RunState>({ isBusy: false });
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);

  const begin = useCallback(
    (inputs: readonly Value[] | undefined, made: (signal: AbortSignal) => Promise<Run>) => {
      current.current.abort();
      current.current = new AbortController();
      const { signal } = current.current;
      setState({ inputs, isBusy: true });
      const show = (run: Run) => {
        if (signal.aborted) return;
        setState({ inputs, run, isBusy: !hasEnded(run) });
        if (hasEnded(run)) onRun(run, inputs);
      };
      made(signal)
        .then((run) => follow(run, show, { signal, onAway }))
        .catch((error: unknown) => {
          if (signal.aborted) return;
          const refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
          setState((before) => ({ ...before, isBusy: false, refusal }));
        });
    },
    [onAway, onRun],
  );

  const start = useCallback(
    (inputs: readonly Value[]) =>
      begin(inputs, async (signal) => {
        const run = await persistently(() => createRun(inputs, signal), { signal, onAway });
        history.replaceState(null, "", `#id=${run.demo_id}`);
        onRun(run, inputs);
        return run;
      }),
    [begin, onAway, onRun],
  );

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
    setState(({ inputs }) => ({ inputs, isBusy: false }));
  }, [state]);

  return { ...state, start, open, cancel };
}
