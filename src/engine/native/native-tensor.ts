/** Tensors that stay on the device of a session until JavaScript reads their elements. */
import { isExternal } from "node:util/types";
import type { CallArgument, CallResult, DeviceTensor } from "../../author/session.ts";
import { unstack } from "../../author/stack.ts";
import {
  type ArrayOf,
  arrayTypes,
  type DType,
  describeTensor,
  ModelTensor,
  type Tensor,
  tensor,
} from "../../author/tensor.ts";
import { copied } from "../../author/tensor-memory.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import {
  type Addon,
  coded,
  type Handle,
  type HeldTensor,
  type NativeArgument,
  type NativeResult,
  type ResultTensor,
  withCodedErrors,
} from "./addon.ts";

/** Deepest nesting of lists, because a list may contain itself. */
const MAX_DEPTH = 64;

export class NativeTensor<D extends DType = DType> implements DeviceTensor<D> {
  readonly dtype: D;
  readonly shape: readonly number[];
  declare readonly data: ArrayOf<D>;
  readonly #addon: Addon;
  readonly #session: Handle;
  readonly #device: string;
  /** Undefined once the tensor was read or freed. */
  #held: HeldTensor | undefined;
  #data: ArrayOf<D> | undefined;
  #isKept = false;

  readonly #onTensor: (tensor: NativeTensor) => void;

  /** @param onTensor called with the tensor, and with each tensor that `unstack` makes of it */
  constructor(
    { dtype, shape, device, held }: Omit<ResultTensor<D>, "held"> & { readonly held: HeldTensor | undefined },
    addon: Addon,
    session: Handle,
    onTensor: (tensor: NativeTensor) => void,
  ) {
    this.dtype = dtype;
    this.shape = shape;
    this.#device = device;
    this.#held = held;
    this.#addon = addon;
    this.#session = session;
    this.#onTensor = onTensor;
    Object.defineProperty(this, "data", NativeTensor.#dataProperty);
    onTensor(this);
  }

  /** Makes `data` an enumerable property of each tensor, so that `{ ...tensor }` has it. */
  static readonly #dataProperty: PropertyDescriptor & ThisType<NativeTensor> = {
    enumerable: true,
    get() {
      return this.#elements;
    },
  };

  get device(): string {
    return this.#data === undefined ? this.#device : "cpu";
  }

  /** Whether the end of the batch frees the tensor. False once the tensor was read, freed or kept. */
  get isTemporary(): boolean {
    return this.#held !== undefined && !this.#isKept;
  }

  async read(): Promise<ArrayOf<D>> {
    const held = this.#held;
    if (held === undefined || this.#device === "cpu") return this.#elements;
    const data = await withCodedErrors(() => this.#addon.readTensor<D>(this.#session, held));
    if (this.#held !== undefined) {
      this.#data = data;
      this.dispose();
    }
    return this.#data ?? data;
  }

  item(): D extends "bool" ? boolean : number {
    return new ModelTensor(this.dtype, this.shape, this.data).item();
  }

  unstack(): NativeTensor<D>[] {
    const { dtype, shape } = this;
    const [addon, session, device, onTensor] = [this.#addon, this.#session, this.#device, this.#onTensor];
    if (this.#held === undefined || shape.length === 0) {
      return unstack<D>(this).map((row) => {
        const made = new NativeTensor({ dtype, shape: row.shape, device, held: undefined }, addon, session, onTensor);
        made.#data = row.data;
        return made;
      });
    }
    return addon
      .unstackTensor(this.#held)
      .map((held) => new NativeTensor({ dtype, shape: shape.slice(1), device, held }, addon, session, onTensor));
  }

  keep(): this {
    this.#isKept = true;
    return this;
  }

  dispose(): void {
    if (this.#held !== undefined) this.#addon.freeTensor(this.#held);
    this.#held = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Returns a copy of the elements. The tensor stays open. */
  async copy(): Promise<Tensor> {
    const { dtype, shape } = this;
    const held = this.#held;
    if (held === undefined) return copied({ dtype, shape, data: this.#elements });
    return { dtype, shape, data: await withCodedErrors(() => this.#addon.readTensor<D>(this.#session, held)) };
  }

  /** Returns the elements and frees the tensor. Large tensors on the CPU are handed over without a copy. */
  async take(): Promise<Tensor> {
    const { dtype, shape } = this;
    const held = this.#held;
    if (held === undefined || this.#device !== "cpu") {
      const copy = await this.copy();
      this.dispose();
      return copy;
    }
    this.#held = undefined;
    return { dtype, shape, data: this.#take(held, true) };
  }

  /** The tensor on the device; undefined once JavaScript has read or freed it. */
  get held(): HeldTensor | undefined {
    return this.#held;
  }

  get #elements(): ArrayOf<D> {
    if (this.#data !== undefined) return this.#data;
    if (this.#held === undefined) throw freed(this);
    this.#data = this.#take(this.#held, false);
    this.#held = undefined;
    return this.#data;
  }

  #take(held: HeldTensor, isOutput: boolean): ArrayOf<D> {
    try {
      return this.#addon.takeTensor<D>(held, isOutput);
    } catch (error) {
      throw coded(error);
    }
  }
}

/**
 * Checks an argument of a call, and converts its tensors. The error's message begins with `where`.
 * @throws SconceError `tensor_invalid`
 */
export function nativeArgument(
  addon: Pick<Addon, "dtypes">,
  given: CallArgument | undefined,
  where: string,
  depth = 0,
): NativeArgument {
  const refused = (what: string, cause?: unknown) => new SconceError("tensor_invalid", `${where}: ${what}`, { cause });
  if (Array.isArray(given)) {
    if (depth === MAX_DEPTH) {
      throw new SconceError("tensor_invalid", `${where.split("[", 1)[0]}: lists may nest ${MAX_DEPTH} deep`);
    }
    return given.map((each: CallArgument, i) => nativeArgument(addon, each, `${where}[${i}]`, depth + 1));
  }
  if (typeof given === "bigint" && BigInt.asIntN(64, given) !== given) {
    throw refused("the bigint does not fit in 64 bits");
  }
  if (typeof given === "number" || typeof given === "bigint" || typeof given === "boolean") return given;
  if (typeof given === "string" || given === undefined || given === null) return given ?? null;
  if (given instanceof NativeTensor && given.held !== undefined) return given.held;
  const { dtype, shape, data }: Partial<Tensor> = "dtype" in given ? given : {};
  const isShaped = dtype !== undefined && Object.hasOwn(arrayTypes, dtype) && Array.isArray(shape);
  if (!isShaped || data === undefined) {
    throw refused(
      "expected a tensor, number, bigint, boolean, string, null or a list of these, received another value",
    );
  }
  try {
    const checked = tensor(data, shape, dtype);
    return { code: addon.dtypes.indexOf(dtype), shape: checked.shape, data: checked.data };
  } catch (error) {
    throw refused(messageOf(error), error);
  }
}

/** Converts a result of the addon. @param make called with each tensor of the result */
export function callResult(given: NativeResult, make: (tensor: ResultTensor) => NativeTensor): CallResult {
  if (typeof given !== "object" || given === null) return given;
  if (isList(given)) return given.map((each) => callResult(each, make));
  if (isTensor(given)) return make(given);
  return Object.fromEntries(Object.entries(given).map(([name, each]) => [name, callResult(each, make)]));
}

function isList(given: object): given is readonly NativeResult[] {
  return Array.isArray(given);
}

/**
 * Whether the addon made this tensor. A dict with a key `held` is no tensor, because its values are no external
 * objects.
 */
function isTensor(given: object): given is ResultTensor {
  return "held" in given && isExternal(given.held);
}

function freed({ dtype, shape }: NativeTensor): SconceError {
  return new SconceError(
    "tensor_invalid",
    `a tensor ${describeTensor(dtype, shape)} of a session was freed when its predict ended; call keep() on tensors that stay longer`,
  );
}
