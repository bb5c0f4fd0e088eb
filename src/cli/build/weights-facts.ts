/**
 * Reads facts from weights files: batch sizes and ranges of free sizes. Chooses sizes to try in these ranges.
 */
import type { ModelFacts } from "../../author/define.ts";
import type { Tensor, TensorSpecs } from "../../author/tensor.ts";
import { WeightsFile } from "../../engine/program/weights-file.ts";
import { statedInputs } from "./plain/plain-model.ts";
import type { TensorInput } from "./plain/tensor-input.ts";
import { resized } from "./trial-items.ts";

export interface WeightsFacts {
  readonly file: string;
  readonly inputs: readonly TensorInput[];
  /** Whether the weights are an AOTInductor package, which pads batches below its smallest batch size. */
  readonly isCompiled: boolean;
}

/** The facts of each weights file that states them. TorchScript states none. */
export function weightsFacts(
  { weights }: Pick<ModelFacts, "weights">,
  pathOf: (name: string) => string,
): WeightsFacts[] {
  return Object.values(weights).flatMap((file): WeightsFacts[] => {
    const inputs = statedInputs(pathOf(file));
    if (inputs === undefined) return [];
    return [{ file, inputs, isCompiled: new WeightsFile(pathOf(file)).programText === undefined }];
  });
}

/** Exports with a free batch size state this minimum, because tracing assumes it. PyTorch runs smaller batches, too. */
export const FREE_LEAST = 2;

/** The smallest batch that PyTorch runs. */
export function leastRows([input]: readonly TensorInput[]): number {
  const rows = input?.sizes[0] ?? 1;
  if (typeof rows === "number") return rows;
  return rows.min > FREE_LEAST ? rows.min : 1;
}

/** A free size, with the input dimensions that share it. */
interface FreeRange {
  readonly name: string;
  readonly places: Set<string>;
  readonly example: number;
  min: number;
  max: number;
}

export interface SizedItem {
  readonly name: string;
  readonly size: number;
  readonly item: readonly Tensor[];
}

/** Largest size to try, as a multiple of the example's size. The limit saves memory. */
const MOST_GROWTH = 2;

/**
 * Items with other sizes than the example: both ends of each free range, the neighbours of the example's size, and the
 * middle.
 */
export function trialSizes(specs: TensorSpecs, item: readonly Tensor[], inputs: readonly TensorInput[]): SizedItem[] {
  return freeRanges(specs, item, inputs).flatMap(({ name, places, example, min, max }) => {
    const last = Math.min(max, Math.max(MOST_GROWTH * example, min));
    const sizes = [min, example - 1, example + 1, Math.floor((example + last) / 2), last];
    const others = new Set(sizes.filter((size) => size >= min && size <= max && size !== example));
    return [...others].map((size) => ({
      name,
      size,
      item: resized(item, (before, input, dim) => (places.has(`${input} ${dim}`) ? size : before)),
    }));
  });
}

/**
 * The free sizes of the inputs. Sizes that share a name in the model or the weights form one range, so that they change
 * together.
 */
function freeRanges(specs: TensorSpecs, item: readonly Tensor[], inputs: readonly TensorInput[]): FreeRange[] {
  const ranges: FreeRange[] = [];
  const byName = new Map<string, FreeRange>();
  for (const [at, [input, { dims }]] of Object.entries(specs).entries()) {
    const own = inputs.find(({ name }) => name === input || name === `input${at}`);
    for (const [dim, declared] of dims.entries()) {
      const free = own?.sizes[dim + 1];
      if (typeof declared === "number" || typeof free !== "object") continue;
      const names = [`model ${typeof declared === "string" ? declared : declared.name}`, `weights ${free.name}`];
      const known = names.map((name) => byName.get(name)).find((range) => range !== undefined);
      const example = item[at]?.shape[dim] ?? 0;
      const range = known ?? {
        name: `${input}.size(${dim + 1})`,
        places: new Set(),
        example,
        min: free.min,
        max: free.max,
      };
      if (known === undefined) ranges.push(range);
      for (const name of names) byName.set(name, range);
      range.places.add(`${at} ${dim}`);
      range.min = Math.max(range.min, free.min);
      range.max = Math.min(range.max, free.max);
    }
  }
  return ranges;
}
