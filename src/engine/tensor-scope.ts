/**
 * The device tensors that calls of sessions returned to the model's code. They are freed at the end of a batch or step,
 * because a garbage collector does not see how full a device is.
 */
import { NativeTensor } from "./native/native-tensor.ts";

export class TensorScope {
  /** Weak references, so that tensors that the model's code no longer uses can be collected during a batch. */
  readonly #tensors = new Set<WeakRef<NativeTensor>>();
  /** The tensors that `search` last found in the state of each item. */
  readonly #found = new WeakMap<object, readonly NativeTensor[]>();

  add(tensor: NativeTensor): void {
    this.#tensors.add(new WeakRef(tensor));
  }

  /** Finds the tensors in a state, so that `free` can keep them. Call it after each step. */
  search(state: unknown): void {
    if (isObject(state)) this.#found.set(state, tensorsIn(state));
  }

  /** Frees all tensors except those in `states`, and those on which the code called `keep()`. */
  free(states: readonly unknown[] = []): void {
    const kept = new Set(states.flatMap((state) => (isObject(state) ? (this.#found.get(state) ?? []) : [])));
    for (const reference of this.#tensors) {
      const tensor = reference.deref();
      if (tensor?.isTemporary && kept.has(tensor)) continue;
      if (tensor?.isTemporary) tensor.dispose();
      this.#tensors.delete(reference);
    }
  }
}

function tensorsIn(root: object): readonly NativeTensor[] {
  const tensors: NativeTensor[] = [];
  const seen = new Set([root]);
  // The set grows during the loop, and the loop visits new members too.
  for (const value of seen) {
    if (value instanceof NativeTensor) tensors.push(value);
    else if (!ArrayBuffer.isView(value)) for (const each of membersOf(value)) if (isObject(each)) seen.add(each);
  }
  return tensors;
}

function membersOf(value: object): Iterable<unknown> {
  if (Array.isArray(value) || value instanceof Set) return value;
  if (value instanceof Map) return [...value].flat();
  return Object.values(value);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
