/** What was measured, in a file: the last results of each case, so that a run can be made in parts. */
import { existsSync } from "node:fs";
import { z } from "../src/model/z.ts";

const spreadSchema = z.object({ median: z.number(), min: z.number(), max: z.number() });
const lineSchema = z.object({
  plot: z.enum(["connections", "offered"]),
  name: z.string(),
  points: z.array(z.object({ x: z.number(), y: z.number() })).readonly(),
  limit: z.number(),
});

const resultSchema = z.object({
  case: z.string(),
  measuredAt: z.iso.datetime(),
  seconds: z.number(),
  repeats: z.number(),
  machine: z.object({ cpu: z.string(), cores: z.number(), bun: z.string(), libtorch: z.string() }),
  subject: z.string(),
  compared: z.string(),
  unit: z.enum(["", "ms", "s", "MB"]),
  goal: z.object({ is: z.enum(["at least", "at most"]), value: z.number() }).optional(),
  reached: spreadSchema,
  values: z.array(z.number()).readonly(),
  behind: z.string(),
  failed: z.number(),
  lines: z.array(lineSchema).readonly().optional(),
  cores: z.object({ min: z.number(), max: z.number() }),
});

export type Result = z.infer<typeof resultSchema>;

export async function readResults(path: string): Promise<Result[]> {
  return z.array(resultSchema).parse(await Bun.file(path).json());
}

/** They take the place of earlier results of their cases. */
export async function saveResults(path: string, results: readonly Result[]): Promise<void> {
  const others = existsSync(path) ? await readResults(path) : [];
  const measured = new Set(results.map((result) => result.case));
  const all = [...others.filter((other) => !measured.has(other.case)), ...results];
  await Bun.write(path, `${JSON.stringify(all, null, 2)}\n`);
}
