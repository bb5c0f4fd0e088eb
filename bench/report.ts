/** The report: what a case finds, as a row of the table that is printed, of the file that keeps it, and of docs/how-fast.md. */
import { existsSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { formatTable } from "../src/commands/table.ts";
import { z } from "../src/model/z.ts";
import { torchVersion } from "../src/native/binding.ts";
import { median } from "./numbers.ts";

const goalSchema = z.object({ is: z.enum(["at least", "at most"]), value: z.number() });
export type Goal = z.infer<typeof goalSchema>;
export const atLeast = (value: number): Goal => ({ is: "at least", value });
export const atMost = (value: number): Goal => ({ is: "at most", value });

const measurementSchema = z.object({
  /** "mlp, 256 connections" */
  subject: z.string(),
  /** "of the raw loop" */
  compared: z.string(),
  /** "" for a ratio, else what follows the number. */
  unit: z.enum(["", "ms", "s"]).default(""),
  /** Undefined where nothing was set as a goal. */
  goal: goalSchema.optional(),
  /** One for each repeat. */
  values: z.array(z.number()).readonly(),
  /** The numbers behind it, in words; absolute, so they hold for this machine and moment only. */
  behind: z.string().default(""),
  /** Requests that were not answered with a prediction that succeeded. */
  failed: z.number().default(0),
});
export type Measurement = z.input<typeof measurementSchema>;

const resultSchema = measurementSchema.extend({
  case: z.string(),
  measuredAt: z.iso.datetime(),
  seconds: z.number(),
  machine: z.string(),
  /** What share of its speed the slower core had while this was measured, of the best in this run. */
  cores: z.object({ min: z.number(), max: z.number() }),
});
export type Result = z.infer<typeof resultSchema>;

export const resultOf = (result: Omit<z.input<typeof resultSchema>, "machine">): Result =>
  resultSchema.parse({ ...result, machine: machine() });

/** To three digits. */
export const rounded = (value: number) => Number(value.toPrecision(3)).toLocaleString("en");

function machine(): string {
  const processor = cpus()[0]?.model.trim() ?? "an unknown processor";
  return `${availableParallelism()} cores of ${processor}, Bun ${Bun.version}, libtorch ${torchVersion()}`;
}

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

/** As both tables have it. */
function cells({ subject, compared, unit, goal, values }: Result): string[] {
  const number = (value: number) => `${rounded(value)}${unit && ` ${unit}`}`;
  const reached = median(values);
  const isReached = goal && (goal.is === "at least" ? reached >= goal.value : reached <= goal.value);
  return [
    subject,
    compared,
    goal === undefined ? "" : `${goal.is === "at least" ? "≥" : "≤"} ${number(goal.value)}`,
    `${number(reached)}${isReached === undefined ? "" : isReached ? " ✓" : " ✗"}`,
    values.length > 1 ? `${number(Math.min(...values))} to ${number(Math.max(...values))}` : "",
  ];
}

/** One row a result; one of several repeats shows their median and their ends. */
export function formatReport(results: readonly Result[]): string {
  const rows = results.map((result) => {
    const { failed, cores, behind } = result;
    return [...cells(result), String(failed), `${cores.min.toFixed(2)} to ${cores.max.toFixed(2)}`, behind];
  });
  const heads = ["WHAT", "MEASURED AS", "GOAL", "REACHED", "REPEATS", "FAILED", "CORES", "ABSOLUTE, HERE AND NOW"];
  return `${formatTable(heads, rows)}

REACHED is the median of the repeats, REPEATS their lowest and highest; what is compared was measured in turns.
FAILED counts requests that got no prediction that succeeded. CORES: the speed of the slower of two cores while nothing else
was measured, as a share of the best in this run; where it is far below 1, others used the machine, and the row says little.
${machine()}`;
}

/** The table of a page, in Markdown. */
export function markdownOf(results: readonly Result[]): string {
  const days = [...new Set(results.map(({ measuredAt }) => measuredAt.slice(0, 10)))].sort();
  const machines = new Set(results.map((result) => result.machine));
  return [
    "| what | measured as | goal | median | lowest to highest |",
    "|---|---|---|---|---|",
    ...results.map((result) => `| ${cells(result).join(" | ")} |`),
    "",
    `Measured ${days.join(" and ")} on ${[...machines].join("; ")}.`,
  ].join("\n");
}

const [begin, end] = ["<!-- bench:begin -->", "<!-- bench:end -->"];

/** Puts the content in the place of what is between two comments of a page. */
export function withContent(text: string, content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`expected ${begin} followed by ${end} in the page`);
  return `${text.slice(0, from)}${begin}\n${content}\n${text.slice(to)}`;
}
