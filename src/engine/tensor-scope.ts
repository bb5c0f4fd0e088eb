/** Tensors that the calls of a runner make. The end of a batch frees them: a garbage collector does not know how full a device is. */
import { NativeTensor } from "./native/native-tensor.ts";

export class TensorScope {
  /** Weak, so that a long batch does not hold the tensors that its code has dropped. */
  #tensors = new Set<WeakRef<NativeTensor>>();

  add(tensor: NativeTensor): void {
    this.#tensors.add(new WeakRef(tensor));
  }

  /** Frees all tensors except those inside `kept`, which stay in the scope, and those with `keep()`. */
  free(kept: readonly unknown[] = []): void {
    const temporary = [...this.#tensors].flatMap((each) => each.deref() ?? []).filter(({ isTemporary }) => isTemporary);
    const found = temporary.length === 0 ? new Set<NativeTensor>() : tensorsIn(kept);
    for (const tensor of temporary) if (!found.has(tensor)) tensor.dispose();
    this.#tensors = new Set(temporary.filter((tensor) => found.has(tensor)).map((tensor) => new WeakRef(tensor)));
  }
}

/** The tensors in objects, lists, maps and sets, at any depth. */
function tensorsIn(values: readonly unknown[]): Set<NativeTensor> {
  const tensors = new Set<NativeTensor>();
  const seen = new Set<object>();
  const search: object[] = [];
  const visit = (value: unknown) => {
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || seen.has(value)) return;
    seen.add(value);
    if (value instanceof NativeTensor) tensors.add(value);
    else search.push(value);
  };
  values.forEach(visit);
  for (let value = search.pop(); value !== undefined; value = search.pop()) {
    if (value instanceof Map) for (const entry of value) entry.forEach(visit);
    else if (value instanceof Set) value.forEach(visit);
    else Object.values(value).forEach(visit);
  }
  return tensors;
}
