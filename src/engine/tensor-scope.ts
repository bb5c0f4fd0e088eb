/**
 * Tensors on the device that a runner's calls returned. The end of a batch frees them: a garbage collector does not
 * know how full a device is.
 */
import { NativeTensor } from "./native/native-tensor.ts";

export class TensorScope {
  /** Weak references, so that tensors that the code has dropped can be collected during a long batch. */
  readonly #tensors = new Set<WeakRef<NativeTensor>>();
  /** The tensors in each state of an item, as the last search found them. */
  readonly #found = new WeakMap<object, readonly NativeTensor[]>();

  add(tensor: NativeTensor): void {
    this.#tensors.add(new WeakRef(tensor));
  }

  /** Finds the tensors in a state. Only a step changes a state, so `free` needs no new search. */
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

/** The tensors in objects, lists, maps and sets, at any depth. */
function tensorsIn(root: object): readonly NativeTensor[] {
  const tensors: NativeTensor[] = [];
  const seen = new Set([root]);
  // The loop also visits the objects that it adds to the set.
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
