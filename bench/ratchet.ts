/**
 * Compares the cases of the group `ratchet` with the ratios that ratchet.json keeps for this processor, so that no
 * change slows small requests unnoticed.
 */
import { cpus } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { median } from "./numbers.ts";
import { type Result, rounded } from "./report.ts";

/** A smaller fall may be noise of the machine. */
const largestFall = 0.1;
const file = join(import.meta.dir, "ratchet.json");
const processor = cpus()[0]?.model.trim() ?? "unknown";

/** Ratios by case, by the name of the processor. */
const keptSchema = z.record(z.string(), z.record(z.string(), z.number()));

/** Lines that name each case whose ratio fell by more than a tenth, or say that none fell. */
export async function comparedWithKept(results: readonly Result[]): Promise<string> {
  const kept = (await read())[processor];
  if (kept === undefined)
    return `ratchet.json has no ratios of this processor (${processor}): add them with \`--keep\` on a quiet machine.`;
  const fallen = results.flatMap(({ case: name, values }) => {
    const [before, now] = [kept[name] ?? 0, median(values)];
    return now < before * (1 - largestFall) ? [`${name} fell from ${rounded(before)} to ${rounded(now)}`] : [];
  });
  return fallen.length === 0 ? "No case fell by more than a tenth." : fallen.join("\n");
}

/** Writes the medians into ratchet.json. */
export async function keep(results: readonly Result[]): Promise<void> {
  const ratios = results.map(({ case: name, values }) => [name, Number(median(values).toPrecision(3))] as const);
  const all = { ...(await read()), [processor]: Object.fromEntries(ratios) };
  await Bun.write(file, `${JSON.stringify(all, null, 2)}\n`);
}

async function read() {
  return keptSchema.parse(await Bun.file(file).json());
}
