/** Sessions of the native addon: weights on a device, run with batches of items. */
import { basename } from "node:path";
import { type ErrorCode, messageOf, SconceError } from "../errors.ts";
import type { CallArgument, CallResult } from "../model/session.ts";
import type { Tensor, TensorSpecs } from "../model/tensor.ts";
import { type Addon, type Handle, loadNative } from "./addon.ts";
import { BatchPacker } from "./batch-packer.ts";
import { openNativeFile } from "./native-file.ts";
import { nativeSpecs, TensorPlan } from "./native-tensors.ts";

export { type NativeLocation, setNativeLocation } from "./addon.ts";

export interface SessionOptions {
  /** The file of the weights, also one inside this executable; what it is gets told by its content, whatever its name. */
  readonly path: string;
  /** `cpu`, `cuda` or `cuda:N`. */
  readonly device: string;
  /** How many cores one forward pass may take. */
  readonly threads: number;
  /**
   * What batches take and give, by name, of one item; the order of the names is the order of the tensors in a batch. Without inputs
   * the session is for `call` alone.
   */
  readonly inputs?: TensorSpecs;
  readonly outputs?: TensorSpecs;
  /** Folds a TorchScript module's constants in, and drops every method but `forward`. Default: unless the session is for `call` alone. */
  readonly freeze?: boolean;
  /** How many sessions will share these weights and run side by side (default 1); AOTInductor must know beforehand. */
  readonly instances?: number;
  /** An open session whose weights this one uses, with a thread of its own; `path` is not read then. */
  readonly share?: NativeSession;
}

/** Loaded weights with a native thread of their own, on which they are loaded, run and freed. */
export interface NativeSession {
  readonly format: "torchscript" | "aotinductor";
  /**
   * Runs items together: `batch[i][j]` is tensor `j` of item `i`. Gives one tensor for each declared output, of shape
   * [batch.length, ...]. The data is copied before this returns: its buffers may be rewritten or transferred at once.
   * Several batches may be under way; they run in the order of the calls.
   *
   * Rejects with `tensor_invalid` (an item does not fit the declaration), `weights_invalid` (the results do not), `run_failed`,
   * `out_of_memory`, or `session_closed`.
   */
  run(batch: readonly (readonly Tensor[])[]): Promise<Tensor[]>;
  /**
   * Runs a method of a TorchScript module (of a frozen one: `forward`), or `forward` of an AOTInductor package; in order with batches.
   * What is given is copied before this returns.
   *
   * Rejects with `tensor_invalid` (the method does not take the arguments), `run_failed` (it threw, or there is no such method),
   * `weights_invalid` (what it gives has no form in JavaScript), `out_of_memory`, or `session_closed`.
   */
  call(method: string, args: readonly CallArgument[]): Promise<CallResult>;
  /**
   * Settles at once the promises of what has ended, in this session and all others. Without it that happens when the event loop turns,
   * which it does not while many sockets are read.
   */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** Rejects the batches that have not begun, lets the running one end, frees the weights. May be called again. */
  dispose(): Promise<void>;
}

/**
 * Loads weights on a thread of their own. Rejects with `weights_invalid` (the file is not weights, or takes or gives other names
 * than declared), `device_unavailable`, `out_of_memory` or `native_unavailable`.
 */
export async function openSession(options: SessionOptions): Promise<NativeSession> {
  const addon = loadNative();
  const { inputs = {}, outputs = {} } = options;
  try {
    // Kept until the weights are loaded; shared ones are not read again.
    await using file = await openNativeFile(options.share === undefined ? options.path : "", addon);
    const handle = await addon.open({
      path: file.path,
      device: options.device,
      threads: options.threads,
      inputs: nativeSpecs(addon, inputs),
      outputs: nativeSpecs(addon, outputs),
      callable: options.inputs === undefined,
      freeze: options.freeze ?? options.inputs !== undefined,
      instances: options.instances ?? 1,
      share: options.share === undefined ? undefined : Session.handleOf(options.share),
    });
    return new Session(addon, handle, { inputs, outputs });
  } catch (error) {
    throw coded(error);
  }
}

/**
 * Makes the stacking of batches for declared inputs.
 * @returns a function from the tensors of each item, in the order of the names, to one tensor for each name, padded and in memory of its
 *   own. It throws SconceError `tensor_invalid` (an item does not fit the declaration) or `out_of_memory`.
 */
export function batchStacker(inputs: TensorSpecs): (batch: readonly (readonly Tensor[])[]) => Record<string, Tensor> {
  const addon = loadNative();
  const specs = nativeSpecs(addon, inputs);
  const packer = new BatchPacker(addon.dtypes, Object.keys(inputs));
  const plan = new TensorPlan(inputs);
  return (batch) => {
    try {
      const stacked = plan.tensors(batch.length, addon.stack(specs, batch.length, packer.pack(batch)));
      return Object.fromEntries(specs.flatMap(({ name }, i) => (stacked[i] === undefined ? [] : [[name, stacked[i]]])));
    } catch (error) {
      throw coded(error);
    }
  };
}

/** Digests of the libraries of operators that this process has loaded. */
const operators = new Set<string>();

/**
 * Loads a library that registers operators with libtorch, before weights that call them; one of the same bytes is loaded once.
 * @throws SconceError `weights_invalid`
 */
export async function loadOperators(path: string): Promise<void> {
  try {
    const digest = new Bun.CryptoHasher("sha256").update(await Bun.file(path).bytes()).digest("hex");
    if (operators.has(digest)) return;
    const addon = loadNative();
    await using file = await openNativeFile(path, addon);
    addon.loadOperators(file.path);
    operators.add(digest);
  } catch (error) {
    throw new SconceError("weights_invalid", `operators ${basename(path)} cannot be loaded: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * The kind of processor and its features (in the words of GCC's -m flags) that the weights' code was compiled for, as they say
 * themselves: "x86_64 avx2 fma"; undefined for TorchScript, which runs anywhere. A session on a processor without them is refused.
 * @throws SconceError `weights_invalid`
 */
export function processorNeeds(path: string): string | undefined {
  try {
    return loadNative().processorNeeds(path) || undefined;
  } catch (error) {
    throw new SconceError("weights_invalid", `weights ${basename(path)} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** How many CUDA devices this libtorch can use; loads its CUDA library where there is one. */
export function cudaDeviceCount(): number {
  return loadNative().cudaDeviceCount();
}

/** The version of libtorch that the addon was built against. */
export function torchVersion(): string {
  return loadNative().torchVersion;
}

class Session implements NativeSession {
  readonly format: NativeSession["format"];
  readonly #addon: Addon;
  readonly #handle: Handle;
  readonly #packer: BatchPacker;
  readonly #outputs: TensorPlan;
  #closed: Promise<void> | undefined;

  constructor(addon: Addon, handle: Handle, { inputs, outputs }: { inputs: TensorSpecs; outputs: TensorSpecs }) {
    this.#addon = addon;
    this.#handle = handle;
    this.#packer = new BatchPacker(addon.dtypes, Object.keys(inputs));
    this.#outputs = new TensorPlan(outputs);
    this.format = addon.format(handle);
  }

  async run(batch: readonly (readonly Tensor[])[]): Promise<Tensor[]> {
    try {
      const packed = this.#packer.pack(batch);
      return this.#outputs.tensors(batch.length, await this.#addon.run(this.#handle, batch.length, packed));
    } catch (error) {
      throw coded(error);
    }
  }

  async call(method: string, args: readonly CallArgument[]): Promise<CallResult> {
    try {
      return await this.#addon.call(this.#handle, method, args);
    } catch (error) {
      throw coded(error);
    }
  }

  async setThreads(threads: number): Promise<void> {
    try {
      await this.#addon.setThreads(this.#handle, threads);
    } catch (error) {
      throw coded(error);
    }
  }

  settle(): void {
    this.#addon.settle();
  }

  dispose(): Promise<void> {
    this.#closed ??= this.#addon.close(this.#handle);
    return this.#closed;
  }

  static handleOf(session: NativeSession): Handle {
    if (!(session instanceof Session)) throw new SconceError("usage", "only a session of this process can be shared");
    return session.#handle;
  }
}

/** The addon's errors carry one of our codes; they become the one error class of sconce. */
function coded(error: unknown): SconceError {
  if (error instanceof SconceError) return error;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return new SconceError(isErrorCode(code) ? code : "run_failed", messageOf(error), { cause: error });
}

const nativeCodes = [
  "usage",
  "weights_invalid",
  "tensor_invalid",
  "run_failed",
  "out_of_memory",
  "device_unavailable",
  "session_closed",
] as const satisfies readonly ErrorCode[];

function isErrorCode(code: unknown): code is (typeof nativeCodes)[number] {
  return nativeCodes.some((known) => known === code);
}
