/** Loads the native addon and declares its types. No other file loads it. */
import { type ArrayOf, arrayTypes, type DType, type TensorData } from "../../author/tensor.ts";
import { codeOf, errorCodes, messageOf, SconceError } from "../../base/errors.ts";
import { loadAddon } from "../../base/native-addon.ts";
import { addonLocation } from "../../machine/libtorch/find-addon.ts";
import type { CompiledCall, Program } from "../program/weights-file.ts";

declare const handle: unique symbol;

export interface Handle {
  readonly [handle]: true;
}

declare const heldTensor: unique symbol;

export interface HeldTensor {
  readonly [heldTensor]: true;
}

/** A tensor of JavaScript, as the addon copies it. */
export interface CopiedTensor {
  /** Index in `dtypes`. */
  readonly code: number;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

export type NativeArgument =
  | HeldTensor
  | CopiedTensor
  | number
  | bigint
  | boolean
  | string
  | null
  | readonly NativeArgument[];

export interface ResultTensor<D extends DType = DType> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly device: string;
  readonly held: HeldTensor;
}

/** A result of `call`. Its tensors stay on the device. */
export type NativeResult =
  | ResultTensor
  | number
  | bigint
  | boolean
  | string
  | null
  | readonly NativeResult[]
  | { readonly [name: string]: NativeResult };

export interface NativeSpec {
  name: string;
  dtype: number;
  /** The declaration in the author's notation, for error messages. */
  text: string;
  /**
   * Each dimension has a size, or else a symbol from 0 on: dimensions of one name share it. A padded dimension has the
   * bytes of the element that fills it.
   */
  dims: { size: number; symbol: number; fill?: Uint8Array | undefined }[];
}

/** Exports of native/addon.cc. All errors that they throw have a `code`. */
export interface Addon {
  readonly torchVersion: string;
  /** Names of the dtypes; the index of a name is the dtype's code. */
  readonly dtypes: readonly string[];
  open(options: {
    path: string;
    device: string;
    threads: number;
    inputs: NativeSpec[];
    outputs: NativeSpec[];
    callable: boolean;
    instances: number;
    share: Handle | undefined;
    program: Program | undefined;
    compiled: CompiledCall | undefined;
    keepMs: number;
    pack: boolean;
  }): Promise<Handle>;
  run(session: Handle, rows: number, batch: NativeBatch): Promise<NativeTensors>;
  /** Stacks and pads a batch into new arrays. (`run` stacks into the memory of its session.) */
  stack(inputs: readonly NativeSpec[], rows: number, batch: NativeBatch): NativeTensors;
  /** Calls a method of the weights. Tensors that are already on the session's device are not copied. */
  call(session: Handle, method: string, args: readonly NativeArgument[]): Promise<NativeResult>;
  readTensor<D extends DType>(session: Handle, tensor: HeldTensor): Promise<ArrayOf<D>>;
  /**
   * Returns the elements of a tensor, after all earlier work of the session, and frees it. With `isOutput`, a large
   * tensor on the CPU is not copied.
   */
  takeTensor<D extends DType>(tensor: HeldTensor, isOutput: boolean): ArrayOf<D>;
  /** Returns the rows of a tensor along its first dimension. They share its memory. */
  unstackTensor(tensor: HeldTensor): HeldTensor[];
  freeTensor(tensor: HeldTensor): void;
  loadOperators(path: string): void;
  setThreads(session: Handle, threads: number): Promise<void>;
  /**
   * Whether a run may change state that the next run reads. For TorchScript it is only known if `instances` was above
   * 1.
   */
  keepsState(session: Handle): boolean;
  /** Number of layers with weights rearranged for the processor. */
  packedLayers(session: Handle): number;
  settle(): void;
  close(session: Handle): Promise<void>;
  closeAll(): void;
  cudaDeviceCount(): number;
}

/**
 * The tensors of all items, in order. Elements of small tensors are in `packed`, other tensors are the next array of
 * `data`.
 */
export interface NativeBatch {
  /** For each tensor: dtype code, rank, offset in `packed` (-1 for a tensor in `data`), number of elements, sizes. */
  readonly meta: Float64Array;
  readonly packed: Uint8Array;
  readonly data: readonly TensorData[];
}

/** A typed array for each declared tensor, then the shape of each tensor with named sizes. */
export type NativeTensors = (TensorData | number[])[];

/** Loads the addon and libtorch on the first call; throws `native_unavailable` with a fix. */
export function loadNative(): Addon {
  loaded ??= load();
  return loaded;
}

let loaded: Addon | undefined;

function load(): Addon {
  const addon = loadAddon({ ...addonLocation(), name: "the native addon", fits: isAddon });
  // Closes all sessions at exit: no thread may run inside libtorch while the process unloads its libraries.
  process.once("exit", () => addon.closeAll());
  return addon;
}

function isAddon(value: unknown): value is Addon {
  const dtypes = typeof value === "object" && value !== null && "dtypes" in value ? value.dtypes : undefined;
  return Array.isArray(dtypes) && Object.keys(arrayTypes).every((name) => dtypes.includes(name));
}

export async function withCodedErrors<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    throw coded(error);
  }
}

/** Converts an error of the addon to a SconceError with the same `code`. */
export function coded(error: unknown): SconceError {
  if (error instanceof SconceError) return error;
  const code = errorCodes.find((known) => known === codeOf(error));
  return new SconceError(code ?? "run_failed", messageOf(error), { cause: error });
}
