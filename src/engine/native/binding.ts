/** Sessions of the native addon: weights on a device that run batches of items. */
import { basename } from "node:path";
import type { CallArgument, CallResult } from "../../author/session.ts";
import { ModelTensor, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { openNativeFile } from "../../base/native-file.ts";
import { type Runnable, WeightsFile } from "../program/weights-file.ts";
import { type Addon, coded, type Handle, loadNative, withCodedErrors } from "./addon.ts";
import { BatchPacker, nativeSpecs, TensorPlan } from "./batch-arrays.ts";
import { callResult, NativeTensor, nativeArgument } from "./native-tensor.ts";

export interface SessionOptions {
  /** Path of the weights, which may be inside this executable. The addon detects the format by content. */
  readonly path: string;
  readonly device: string;
  readonly threads: number;
  /**
   * Tensors of one item, by name. The order of names is the order of tensors in a batch. With inputs, a TorchScript
   * module is frozen if possible, and then has only the method `forward`. Without inputs, the session only supports
   * `call`.
   */
  readonly inputs?: TensorSpecs;
  readonly outputs?: TensorSpecs;
  /**
   * Number of sessions that will share these weights and run in parallel (default 1). AOTInductor needs it in advance.
   */
  readonly instances?: number;
  /** Shares the weights of this open session, but runs on another thread. `path` is then not read. */
  readonly share?: NativeSession;
  /**
   * Milliseconds to keep unused batch memory (default 10,000). If no batch needs half of the memory for this
   * long, the session frees it.
   */
  readonly keepMs?: number;
  /**
   * Whether layers of a TorchScript module or exported program may repack their weights for the processor (default
   * true). Outputs then differ from PyTorch's by rounding of sums, as between two processors.
   */
  readonly pack?: boolean | undefined;
}

const KEEP_MS = 10_000;

interface Opened {
  readonly handle: Handle;
  readonly options: SessionOptions;
  readonly runnable: Runnable;
}

/** Weights with their own native thread, which loads, runs and frees them. */
export class NativeSession {
  readonly #addon: Addon;
  readonly #handle: Handle;
  readonly #packer: BatchPacker;
  readonly #outputs: TensorPlan;
  readonly #runnable: Runnable;
  #closed: Promise<void> | undefined;

  private constructor(addon: Addon, { handle, options, runnable }: Opened) {
    const { inputs = {}, outputs = {} } = options;
    this.#runnable = runnable;
    this.#addon = addon;
    this.#handle = handle;
    this.#packer = new BatchPacker(addon.dtypes, Object.keys(inputs));
    this.#outputs = new TensorPlan(outputs);
  }

  static async open(options: SessionOptions): Promise<NativeSession> {
    const { path, device, threads, inputs, outputs, instances = 1, share, keepMs = KEEP_MS, pack = true } = options;
    const addon = loadNative();
    return withCodedErrors(async () => {
      // Sessions that share weights read no file, so the path is empty.
      await using file = await openNativeFile(share === undefined ? path : "");
      const [kind = ""] = device.split(":");
      const declared = inputs && { inputs, outputs: outputs ?? {} };
      const runnable =
        share === undefined ? new WeightsFile(file.path, basename(path)).runnable(kind, declared) : share.#runnable;
      const handle = await addon.open({
        path: file.path,
        device,
        threads,
        inputs: nativeSpecs(addon, inputs ?? {}),
        outputs: nativeSpecs(addon, outputs ?? {}),
        callable: inputs === undefined,
        instances,
        share: share === undefined ? undefined : share.#handle,
        program: share === undefined ? runnable.program : undefined,
        compiled: share === undefined ? runnable.compiled : undefined,
        keepMs,
        pack,
      });
      return new NativeSession(addon, { handle, options, runnable });
    });
  }

  /**
   * Runs a batch: `batch[i][j]` is tensor `j` of item `i`. Returns one tensor per declared output, of shape
   * [batch.length, ...]. The input data is copied before this returns, so callers may reuse or transfer the buffers.
   * Several calls may be pending; they run in order.
   * Rejects with `tensor_invalid` (an item does not match the declaration), `weights_invalid` (the results do not),
   * `run_failed`, `out_of_memory`, or `session_closed`.
   */
  run(batch: readonly (readonly Tensor[])[]): Promise<Tensor[]> {
    return withCodedErrors(async () => {
      const { length: rows } = batch;
      const wanted = this.#runnable.guards?.rowsFor(batch) ?? rows;
      const padded = wanted > rows ? [...batch, ...Array(wanted - rows).fill(batch.at(-1))] : batch;
      const packed = this.#packer.pack(padded);
      const outputs = this.#outputs.tensors(wanted, await this.#addon.run(this.#handle, wanted, packed));
      return wanted > rows ? outputs.map((output) => firstRows(output, rows)) : outputs;
    });
  }

  /** Checks an item before it is queued. @throws SconceError `run_failed` for sizes that the guards refuse */
  checkItem(tensors: readonly Tensor[]): void {
    this.#runnable.guards?.rowsFor([tensors]);
  }

  /**
   * Runs a method of a TorchScript module (only `forward` if the session takes batches), or `forward` of an AOTInductor
   * package, in order with the batches. Arguments are copied before this returns. Tensors of other calls are not copied,
   * if they are on this session's device.
   * @param onTensor called with each tensor of the result
   * Rejects with `tensor_invalid` (wrong arguments), `run_failed` (the method threw or does not exist),
   * `weights_invalid` (the result has no JavaScript form), `out_of_memory`, or `session_closed`.
   */
  call(
    method: string,
    args: readonly CallArgument[],
    onTensor: (tensor: NativeTensor) => void = () => {},
  ): Promise<CallResult> {
    return withCodedErrors(async () => {
      const [addon, handle] = [this.#addon, this.#handle];
      const given = args.map((arg, i) => nativeArgument(addon, arg, `${method}, argument ${i}`));
      const sizes = method === "forward" ? args.flatMap((arg) => sizesOf(arg) ?? []) : [];
      if (sizes.length === args.length) this.#runnable.guards?.require(sizes);
      const result = await addon.call(handle, method, given);
      return callResult(result, (given) => new NativeTensor(given, addon, handle, onTensor));
    });
  }

  /**
   * Settles the promises of finished work now, in all sessions. Otherwise they wait for the event loop, which is slow
   * to turn while many sockets are read.
   */
  settle(): void {
    this.#addon.settle();
  }

  /**
   * Whether a run may modify state that the next run reads, so that sessions must not share the weights. For
   * TorchScript only known with `instances` above 1.
   */
  get keepsState(): boolean {
    return this.#runnable.keepsState ?? this.#addon.keepsState(this.#handle);
  }

  get packedLayers(): number {
    return this.#addon.packedLayers(this.#handle);
  }

  /** Largest batch that the weights accept, in rows; Infinity without a limit. */
  get mostRows(): number {
    return this.#runnable.mostRows;
  }

  setThreads(threads: number): Promise<void> {
    return withCodedErrors(async () => this.#addon.setThreads(this.#handle, threads));
  }

  /**
   * Rejects pending batches, lets the running one finish, then frees the weights unless another session shares them. A
   * second call returns the same promise.
   */
  dispose(): Promise<void> {
    this.#closed ??= this.#addon.close(this.#handle);
    return this.#closed;
  }
}

function isTensor(given: CallArgument): given is Extract<CallArgument, Pick<Tensor, "dtype" | "shape">> {
  return typeof given === "object" && given !== null && "dtype" in given && Array.isArray(given.shape);
}

/** The size of an argument for a tensor: the addon stacks a list of tensors. Undefined for other arguments. */
function sizesOf(given: CallArgument): Pick<Tensor, "dtype" | "shape"> | undefined {
  if (isTensor(given)) return given;
  const list: readonly CallArgument[] = Array.isArray(given) ? given : [];
  const [first = null] = list;
  return isTensor(first) ? { dtype: first.dtype, shape: [list.length, ...first.shape] } : undefined;
}

/** The first rows of an output, in memory that the other rows do not share. */
function firstRows({ dtype, shape, data }: Tensor, rows: number): ModelTensor {
  const [all = 1, ...sizes] = shape;
  return new ModelTensor(dtype, [rows, ...sizes], data.slice(0, (data.length / all) * rows));
}

/**
 * Loads weights on a new thread. Rejects with `weights_invalid` (the file is not weights, or its names differ from the
 * declaration), `device_unavailable`, `out_of_memory` or `native_unavailable`.
 */
export function openSession(options: SessionOptions): Promise<NativeSession> {
  return NativeSession.open(options);
}

/**
 * Creates a function that stacks batches of the declared inputs.
 * @returns a function from the tensors of each item, in the order of the names, to one padded tensor per name in new
 * memory. The function throws SconceError `tensor_invalid` (an item does not match the declaration) or `out_of_memory`.
 */
export function batchStacker(
  inputs: TensorSpecs,
): (batch: readonly (readonly Tensor[])[]) => Record<string, ModelTensor> {
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

const operators = new Set<string>();

/**
 * Loads a library that registers operators with libtorch; call it before loading weights that use them. Libraries with
 * equal bytes are loaded once.
 * @throws SconceError `weights_invalid`
 */
export async function loadOperators(path: string): Promise<void> {
  try {
    const digest = new Bun.CryptoHasher("sha256").update(await Bun.file(path).bytes()).digest("hex");
    if (operators.has(digest)) return;
    const addon = loadNative();
    await using file = await openNativeFile(path);
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

/** Number of CUDA devices that this libtorch can use. Loads its CUDA library if there is one. */
export function cudaDeviceCount(): number {
  return loadNative().cudaDeviceCount();
}

/** Version of libtorch that the addon was built against. */
export function torchVersion(): string {
  return loadNative().torchVersion;
}
