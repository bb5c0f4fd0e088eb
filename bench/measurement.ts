/** What a case of the benchmark is given and what it finds, and the file that keeps what was found. */
import { existsSync } from "node:fs";
import { z } from "../src/model/z.ts";
import type { Canary } from "./canary.ts";

export interface CaseOptions {
  /** How long one turn takes; a whole number. */
  readonly seconds: number;
  readonly repeats: number;
  readonly canary: Canary;
}

const goalSchema = z.object({ is: z.enum(["at least", "at most"]), value: z.number() });
export type Goal = z.infer<typeof goalSchema>;
export const atLeast = (value: number): Goal => ({ is: "at least", value });
export const atMost = (value: number): Goal => ({ is: "at most", value });

/** What a plot shows of a measurement: points from left to right, in the units of its axes. */
const lineSchema = z.object({
  plot: z.enum(["connections", "offered"]),
  name: z.string(),
  points: z.array(z.object({ x: z.number(), y: z.number() })).readonly(),
  /** What the raw loop does at the same time, in items a second. */
  limit: z.number(),
});
export type Line = z.infer<typeof lineSchema>;

const measurementSchema = z.object({
  /** "mlp, 256 connections" */
  subject: z.string(),
  /** "of the raw loop" */
  compared: z.string(),
  /** "" for a ratio, else what follows the number. */
  unit: z.enum(["", "ms", "s", "MB"]).default(""),
  /** Undefined where nothing was set as a goal. */
  goal: goalSchema.optional(),
  /** One for each repeat. */
  values: z.array(z.number()).readonly(),
  /** The numbers behind it, in words; absolute, so they hold for this machine and moment only. */
  behind: z.string().default(""),
  /** Requests that were not answered with a prediction that succeeded. */
  failed: z.number().default(0),
  lines: z.array(lineSchema).readonly().optional(),
});
export type Measurement = z.input<typeof measurementSchema>;

const resultSchema = measurementSchema.extend({
  case: z.string(),
  measuredAt: z.iso.datetime(),
  seconds: z.number(),
  repeats: z.number(),
  machine: z.object({ cpu: z.string(), cores: z.number(), bun: z.string(), libtorch: z.string() }),
  /** What share of its speed the slower core had while this was measured, of the best in this run. */
  cores: z.object({ min: z.number(), max: z.number() }),
});
export type Result = z.infer<typeof resultSchema>;

export const resultOf = (result: z.input<typeof resultSchema>): Result => resultSchema.parse(result);

export async function readResults(path: string): Promise<Result[]> {
  return z.array(resultSchema).parse(await Bun.file(path).json());
}

/** They take the place of earlier results of their cases, so that a run can be made in parts. */
export async function saveResults(path: string, results: readonly Result[]): Promise<void> {
  const others = existsSync(path) ? await readResults(path) : [];
  const measured = new Set(results.map((result) => result.case));
  const all = [...others.filter((other) => !measured.has(other.case)), ...results];
  await Bun.write(path, `${JSON.stringify(all, null, 2)}\n`);
}
