/** Sessions for an author's `predict`, `begin` and `step`: loaded weights with methods to call. */
import type { HookCaller } from "./hook-context.ts";
import type { ArrayOf, DType, ModelTensor, Tensor } from "./tensor.ts";

/**
 * An argument of `call`. A number becomes `int` or `float`, as the method declares; a bigint becomes `int`; null
 * becomes None. A list of tensors of equal shapes is stacked where the method takes a tensor.
 */
export type CallArgument = Tensor | number | bigint | boolean | string | null | readonly CallArgument[];

/**
 * A result of `call`. An `int` beyond 2^53 is a bigint, and None is null. Tuples and lists are lists. Named tuples and
 * dicts are objects.
 */
export type CallResult =
  | Tensor
  | number
  | bigint
  | boolean
  | string
  | null
  | readonly CallResult[]
  | { readonly [name: string]: CallResult };

/**
 * A tensor that a session returned. The elements stay on the session's device until code reads them. A later `call`
 * takes it without a copy. If its elements were not read, the end of `predict` or of a step frees it, except a tensor
 * in a returned state.
 */
export interface DeviceTensor<D extends DType = DType> extends ModelTensor<D> {
  /** The device with the elements: `cpu`, or `cuda:N`. Reading moves the elements to the CPU. */
  readonly device: string;
  /**
   * The elements. The first read copies them from the device. Later calls use this copy, including changes by model
   * code. On a GPU this copy blocks the process; `await tensor.read()` does not.
   * @throws SconceError `tensor_invalid` for a freed tensor
   */
  readonly data: ArrayOf<D>;
  /** The same as `data`, without blocking the process. */
  read(): Promise<ArrayOf<D>>;
  /**
   * The rows along the first dimension. The rows stay on the device, share this tensor's memory, and live as long as other
   * results of `call`. If the elements were read, the rows are on the CPU.
   */
  unstack(): DeviceTensor<D>[];
  /** Keeps the tensor beyond the end of `predict` or of a step, until `dispose` or until no code refers to it. */
  keep(): this;
  /** Frees the memory on the device. A second call does nothing. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/** Weights loaded on a device. Calls run one after the other, in call order. */
export interface ModelSession {
  /**
   * Runs `forward` of a program or package, or any method of a TorchScript module. Tensors of the result stay on the
   * device.
   * @typeParam R result type, which is not checked. Default: one tensor
   * @param args in the order of the method's arguments; trailing arguments with defaults may be omitted
   * @throws SconceError `tensor_invalid` for wrong arguments, `run_failed` for errors of the method
   */
  call<R extends CallResult = DeviceTensor>(method: string, ...args: readonly CallArgument[]): Promise<R>;
}

/** Path of a weights file, or several paths by name. */
export type WeightsDeclaration = string | Readonly<Record<string, string>>;

/** Sessions by weights name; a single file's session is called `model`. */
export type Sessions<W extends WeightsDeclaration> = {
  readonly [K in W extends string ? "model" : keyof W]: ModelSession;
};

/** Tensors of a whole batch by name, stacked along the first dimension. */
export type Stacked = Readonly<Record<string, Tensor>>;

/** Yields a part of each item, stacked along the first dimension, and returns the stacked outputs. */
export type StackedParts = AsyncGenerator<Stacked, Stacked, undefined>;

/**
 * The result of a step for one item: the state for the next step, or the outputs of a finished item. `part` has tensors
 * for a part of the item's output, which clients get at once.
 */
export type StepResult<State, Outputs, Part> =
  | { readonly state: State; readonly part?: Part | undefined }
  | { readonly outputs: Outputs; readonly part?: Part | undefined };

/** An author's `begin` and `step`, without the model's types. */
export interface Steps {
  readonly begin: (inputs: Stacked, sessions: Readonly<Record<string, ModelSession>>, caller?: HookCaller) => unknown;
  readonly step: (
    states: readonly unknown[],
    sessions: Readonly<Record<string, ModelSession>>,
    caller?: HookCaller,
  ) => unknown;
}

/** An author's `predict`, without the model's types: turns a batch's stacked inputs into stacked outputs, by name. */
export type Predict = (
  batch: Stacked,
  sessions: Readonly<Record<string, ModelSession>>,
  caller?: HookCaller,
) => Stacked | StackedParts | Promise<Stacked | StackedParts>;
