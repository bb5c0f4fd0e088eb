/** Sessions as model code sees them in `predict`: loaded weights whose methods can be called. */
import type { Tensor } from "./tensor.ts";

/** What a method takes: a number becomes `int` or `float`, as the method declares it; a bigint is an `int`, null is None. */
export type CallArgument = Tensor | number | bigint | boolean | string | null | readonly CallArgument[];

/** What a method gives: an `int` beyond 2^53 as bigint, None as null, tuples and lists as lists, named tuples and dicts as objects. */
export type CallResult =
  | Tensor
  | number
  | bigint
  | boolean
  | string
  | null
  | readonly CallResult[]
  | { readonly [name: string]: CallResult };

/** Weights that are loaded on a device. Its calls run one after the other, in the order in which they were made. */
export interface ModelSession {
  /**
   * Runs `forward` of a program or package, or any method of a TorchScript module, and gives what it gives, with tensors copied to the CPU.
   *
   * @param R what the author knows the method to give; it is not checked. Default: one tensor
   * @param args in the order of the method's arguments; trailing ones that have defaults may be left out
   * @throws SconceError `tensor_invalid` for arguments that the method does not take, `run_failed` for what it throws
   */
  call<R extends CallResult = Tensor>(method: string, ...args: readonly CallArgument[]): Promise<R>;
}

/** One file, or several by name. */
export type WeightsDeclaration = string | Readonly<Record<string, string>>;

/** By the names of the weights; a single file's is called `model`. */
export type Sessions<W extends WeightsDeclaration> = {
  readonly [K in W extends string ? "model" : keyof W]: ModelSession;
};

/** A model's `predict` whose types are known at run time only: from a batch's stacked inputs to its stacked outputs, by name. */
export type Predict = (
  batch: Readonly<Record<string, Tensor>>,
  sessions: Readonly<Record<string, ModelSession>>,
) => Readonly<Record<string, Tensor>> | Promise<Readonly<Record<string, Tensor>>>;
