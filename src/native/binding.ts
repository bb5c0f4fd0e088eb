/** Sessions of the native addon: weights on a device, run with batches of items. */
import { basename } from "node:path";
import { type ErrorCode, messageOf, SconceError } from "../errors.ts";
import type { CallArgument, CallResult } from "../model/session.ts";
import type { Tensor, TensorSpecs } from "../model/tensor.ts";
import { type Addon, type Handle, loadNative } from "./addon.ts";
import { BatchPacker } from "./batch-packer.ts";
import { openNativeFile } from "./native-file.ts";
import { nativeSpecs, TensorPlan } from "./native-tensors.ts";
import { readGuards, readProgram } from "./program.ts";
import { describeFile } from "./weights-kind.ts";

export { type NativeLocation, nativeLocation, setNativeLocation } from "./addon.ts";

export interface SessionOptions {
  /** The file of the weights, also one inside this executable; what it is gets told by its content, whatever its name. */
  readonly path: string;
  /** `cpu`, `cuda` or `cuda:N`. */
  readonly device: string;
  /** How many cores one forward pass may take. */
  readonly threads: number;
  /**
   * What batches take and give, by name, of one item; the order of the names is the order of the tensors in a batch. Then a TorchScript
   * module's constants are folded in, and every method but `forward` is dropped. Without inputs the session is for `call` alone.
   */
  readonly inputs?: TensorSpecs;
  readonly outputs?: TensorSpecs;
  /** How many sessions will share these weights and run side by side (default 1); AOTInductor must know beforehand. */
  readonly instances?: number;
  /** An open session whose weights this one uses, with a thread of its own; `path` is not read then. */
  readonly share?: NativeSession;
  /** Memory that batches needed is kept for the next ones, and given back once none needed half as much for so many milliseconds (default 10,000). */
  readonly keepMs?: number;
  /**
   * Whether layers of a TorchScript module or an exported program may get their weights as the processor reads them (default true): outputs then
   * differ from PyTorch's as those of another processor do, by the rounding of sums.
   */
  readonly pack?: boolean | undefined;
}

const KEEP_MS = 10_000;

/** Loaded weights with a native thread of their own, on which they are loaded, run and freed. */
export class NativeSession {
  readonly #addon: Addon;
  readonly #handle: Handle;
  readonly #packer: BatchPacker;
  readonly #outputs: TensorPlan;
  readonly #options: SessionOptions;
  #threads: number;
  #closed: Promise<void> | undefined;

  private constructor(addon: Addon, handle: Handle, options: SessionOptions) {
    const { inputs = {}, outputs = {}, threads } = options;
    this.#options = options;
    this.#threads = threads;
    this.#addon = addon;
    this.#handle = handle;
    this.#packer = new BatchPacker(addon.dtypes, Object.keys(inputs));
    this.#outputs = new TensorPlan(outputs);
  }

  /** As `openSession`. */
  static async open(options: SessionOptions): Promise<NativeSession> {
    const { path, device, threads, inputs, outputs, instances = 1, share, keepMs = KEEP_MS, pack = true } = options;
    const addon = loadNative();
    return told(async () => {
      // Kept until the weights are loaded; shared ones are not read again.
      await using file = await openNativeFile(share === undefined ? path : "", addon);
      const program = share === undefined ? readProgram(file.path) : undefined;
      const opening = addon.open({
        path: file.path,
        device,
        threads,
        inputs: nativeSpecs(addon, inputs ?? {}),
        outputs: nativeSpecs(addon, outputs ?? {}),
        callable: inputs === undefined,
        instances,
        share: share === undefined ? undefined : share.#handle,
        program,
        guards: program?.guards ?? (share === undefined ? readGuards(file.path) : undefined),
        keepMs,
        pack,
      });
      const handle = await opening.catch((error: unknown) => {
        const { code } = coded(error);
        const kind = code === "weights_invalid" && share === undefined ? describeFile(path) : undefined;
        throw kind === undefined ? error : new SconceError(code, `weights "${basename(path)}": ${kind}`);
      });
      return new NativeSession(addon, handle, options);
    });
  }

  /**
   * Runs items together: `batch[i][j]` is tensor `j` of item `i`. Gives one tensor for each declared output, of shape
   * [batch.length, ...]. The data is copied before this returns: its buffers may be rewritten or transferred at once.
   * Several batches may be under way; they run in the order of the calls.
   *
   * Rejects with `tensor_invalid` (an item does not fit the declaration), `weights_invalid` (the results do not), `run_failed`,
   * `out_of_memory`, or `session_closed`.
   */
  run(batch: readonly (readonly Tensor[])[]): Promise<Tensor[]> {
    return told(async () => {
      const packed = this.#packer.pack(batch);
      return this.#outputs.tensors(batch.length, await this.#addon.run(this.#handle, batch.length, packed));
    });
  }

  /**
   * Runs a method of a TorchScript module (of one that takes batches: `forward`), or `forward` of an AOTInductor package; in order with
   * batches. What is given is copied before this returns.
   *
   * Rejects with `tensor_invalid` (the method does not take the arguments), `run_failed` (it threw, or there is no such method),
   * `weights_invalid` (what it gives has no form in JavaScript), `out_of_memory`, or `session_closed`.
   */
  call(method: string, args: readonly CallArgument[]): Promise<CallResult> {
    return told(async () => this.#addon.call(this.#handle, method, args));
  }

  /**
   * Settles at once the promises of what has ended, in this session and all others. Without it that happens when the event loop turns,
   * which it does not while many sockets are read.
   */
  settle(): void {
    this.#addon.settle();
  }

  /** Of one opened for several `instances`: whether a run may write what the next one reads, so that another must not share the weights. */
  get keepsState(): boolean {
    return this.#addon.keepsState(this.#handle);
  }

  /** Opens one more on the same weights, with as many threads; undefined where they are for one, or keep a state. */
  get another(): (() => Promise<NativeSession>) | undefined {
    const { instances = 1 } = this.#options;
    if (instances === 1 || this.keepsState) return undefined;
    return () => NativeSession.open({ ...this.#options, threads: this.#threads, share: this });
  }

  /** How many layers have their weights as the processor reads them. */
  get packedLayers(): number {
    return this.#addon.packedLayers(this.#handle);
  }

  get mostRows(): number {
    return this.#addon.mostRows(this.#handle);
  }

  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void> {
    this.#threads = threads;
    return told(async () => this.#addon.setThreads(this.#handle, threads));
  }

  /** Rejects the batches that have not begun, lets the running one end, frees the weights. May be called again. */
  dispose(): Promise<void> {
    this.#closed ??= this.#addon.close(this.#handle);
    return this.#closed;
  }
}

/**
 * Loads weights on a thread of their own. Rejects with `weights_invalid` (the file is not weights, or takes or gives other names
 * than declared), `device_unavailable`, `out_of_memory` or `native_unavailable`.
 */
export function openSession(options: SessionOptions): Promise<NativeSession> {
  return NativeSession.open(options);
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
    const message = messageOf(error);
    const fix = message.includes("libtorch_python")
      ? "; it was linked for Python: link it with -ltorch_cpu -lc10 alone"
      : "";
    throw new SconceError("weights_invalid", `operators ${basename(path)} cannot be loaded: ${message}${fix}`, {
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

/**
 * The kind of device that the weights' code was compiled for, `cpu` or `cuda`; undefined for weights that run on any, and for a file that
 * cannot be read: whoever opens it says why.
 */
export async function compiledDevice(path: string): Promise<string | undefined> {
  const addon = loadNative();
  try {
    await using file = await openNativeFile(path, addon);
    return addon.compiledDevice(file.path) || undefined;
  } catch {
    return undefined;
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

/** Does what the addon may reject. */
async function told<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    throw coded(error);
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
