/**
 * The context argument of the author's functions: the result of `setup`, parameters, device, and signal and log of the
 * calling prediction.
 */
import { format } from "node:util";

/** Last argument of most of the author's functions, such as `preprocess`. */
export interface HookContext<State = unknown, Params = unknown> {
  /** The result of `setup` in this process. */
  readonly state: State;
  /** Values of the parameters that `params` declares: defaults, or values from `--param`. */
  readonly params: Params;
  /** Where batches run: `cpu`, `cuda:0`, or several GPUs with commas between them. */
  readonly device: string;
  /** Aborts when the prediction is canceled or times out; in `predict`, when the model is closed. */
  readonly signal: AbortSignal;
  /** Writes a line to the server's log, with the ids of the request and the prediction. */
  readonly log: (...values: readonly unknown[]) => void;
}

/** Second argument of `postprocess`. */
export interface InputContext<Input = unknown, State = unknown, Params = unknown> extends HookContext<State, Params> {
  readonly input: Input;
}

/** Second argument of `postprocessPart`. */
export interface PartContext<Input = unknown, State = unknown, Params = unknown>
  extends InputContext<Input, State, Params> {
  /** Number of earlier parts of this input's output. */
  readonly sequence: number;
}

/** State, parameters and device of an opened model. */
export interface OpenContext {
  state: unknown;
  readonly params: unknown;
  device: string;
}

/** The prediction that a call of the author's function belongs to. */
export interface HookCaller {
  readonly signal: AbortSignal;
  /** Stops work on the files of the input. Default: `signal`. */
  readonly fileSignal?: AbortSignal | undefined;
  /** Writes a line of the function's log. Default: the line goes to standard error. */
  readonly log?: ((text: string) => void) | undefined;
  /** Device on which the call runs. Default: the device of the opened model. */
  readonly device?: string;
  /** The context of an input, which its `preprocess` makes and its `postprocess` gets again. */
  context?: PartContext | undefined;
}

const nobody: HookCaller = { signal: new AbortController().signal };

export interface CallFacts {
  readonly input?: unknown;
  readonly sequence?: number;
  readonly caller?: HookCaller | undefined;
}

/**
 * Creates the context of one call. All members are own properties, because authors write `({ input, ...context })`.
 * `signal` is a getter, because some callers create their AbortSignal when it is first read.
 */
export function hookContext(
  opened: Readonly<OpenContext>,
  { input, sequence = 0, caller = nobody }: CallFacts,
): PartContext {
  return {
    state: opened.state,
    params: opened.params,
    device: caller.device ?? opened.device,
    input,
    sequence,
    log: (...values) => (caller.log ?? console.error)(format(...values)),
    get signal() {
      return caller.signal;
    },
  };
}
