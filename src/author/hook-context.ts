/** Contexts of hooks: what `setup` made, the parameters, and the prediction that a call belongs to. */
import { format } from "node:util";

/** Last argument of every hook. */
export interface HookContext<State = unknown, Params = unknown> {
  /** The result of `setup` in this process. */
  readonly state: State;
  /** The parameters that `params` declares, as the operator set them. */
  readonly params: Params;
  /** Where batches run: `cpu`, `cuda:0`, or several GPUs with commas between them. */
  readonly device: string;
  /** Aborts when the prediction is canceled or times out; for `predict`, when the model is closed. */
  readonly signal: AbortSignal;
  /** Writes a line into the server's log, with the ids of the request and the prediction. */
  readonly log: (...values: readonly unknown[]) => void;
}

/** Second argument of `postprocess`. */
export interface InputContext<Input = unknown, State = unknown, Params = unknown> extends HookContext<State, Params> {
  readonly input: Input;
}

/** Second argument of `postprocessPart`. */
export interface PartContext<Input = unknown, State = unknown, Params = unknown>
  extends InputContext<Input, State, Params> {
  /** Parts of this input before this part. */
  readonly sequence: number;
}

/** State, parameters and device of a model in one process. */
export interface SharedContext {
  state: unknown;
  params: unknown;
  device: string;
}

/** The prediction that a hook is called for. */
export interface HookCaller {
  readonly signal: AbortSignal;
  /** Default: the text goes to `console`. */
  readonly log?: ((text: string) => void) | undefined;
  /** Default: the device of the shared context. */
  readonly device?: string;
}

const nobody: HookCaller = { signal: new AbortController().signal };

export interface CallFacts {
  readonly input?: unknown;
  readonly sequence?: number;
  readonly caller?: HookCaller | undefined;
}

/** The context of one call. A signal is made only if the hook reads it. */
export function hookContext(
  shared: Readonly<SharedContext>,
  { input, sequence = 0, caller = nobody }: CallFacts,
): PartContext {
  return {
    state: shared.state,
    params: shared.params,
    device: caller.device ?? shared.device,
    input,
    sequence,
    log: (...values) => (caller.log ?? console.error)(format(...values)),
    get signal() {
      return caller.signal;
    },
  };
}
