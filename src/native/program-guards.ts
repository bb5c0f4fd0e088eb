/** What the sizes of an exported program's inputs must be, as TorchScript that refuses others. */
import { z } from "zod";

export const dimension = z.union([
  z.object({ as_int: z.number() }),
  z.object({ as_expr: z.looseObject({ expr_str: z.string() }) }),
]);
const bound = z.number().nullish();
export const rangeConstraints = z.record(z.string(), z.looseObject({ min_val: bound, max_val: bound }));

interface SizedInput {
  readonly name: string;
  readonly sizes: readonly z.infer<typeof dimension>[];
}

/** What the sizes of the inputs must be. */
export class Guards {
  readonly lines: string[] = [];
  readonly mostRows: number;
  readonly leastRows: number;

  constructor(inputs: readonly SizedInput[], ranges: z.infer<typeof rangeConstraints>) {
    const seen = new Map<string, string>();
    const rows: { least: number; most: number }[] = [];
    for (const { name, sizes } of inputs) {
      for (const [place, size] of sizes.entries()) {
        const text = `${name}.size(${place})`;
        if ("as_int" in size) {
          this.#require(`${text} == ${size.as_int}`, `${name}: size ${place} must be ${size.as_int}`);
          if (place === 0) rows.push({ least: size.as_int, most: size.as_int });
          continue;
        }
        const [, free = ""] = /^Symbol\('(\w+)'/.exec(size.as_expr.expr_str) ?? [];
        const same = seen.get(free);
        seen.set(free, text);
        if (free === "") continue;
        if (same !== undefined) {
          this.#require(`${text} == ${same}`, `${name}: size ${place} must be that of ${same.replace(".size", "")}`);
          continue;
        }
        const { min_val: min, max_val: max } = ranges[free] ?? {};
        // Tracing takes it that no free size is 1 unless it is told so; most programs do not care.
        const least = (min ?? 0) > 2 ? (min ?? 0) : 1;
        if (least > 1) this.#require(`${text} >= ${least}`, `${name}: size ${place} must be at least ${least}`);
        if (max != null) this.#require(`${text} <= ${max}`, `${name}: size ${place} must be at most ${max}`);
        if (place === 0) rows.push({ least, most: max ?? Number.POSITIVE_INFINITY });
      }
    }
    this.mostRows = Math.min(...rows.map(({ most }) => most));
    this.leastRows = Math.max(...rows.map(({ least }) => least));
  }

  #require(condition: string, message: string): void {
    this.lines.push(`assert ${condition}, ${JSON.stringify(message)}`);
  }
}
