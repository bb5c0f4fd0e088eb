/**
 * Formats the results of the benchmark: a Markdown table of ratios for docs/how-fast.md, and a table of absolute
 * figures.
 */
import { availableParallelism, cpus } from "node:os";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { formatTable } from "../src/cli/command-line/table.ts";
import { median } from "./numbers.ts";

export interface Goal {
  readonly is: "at least" | "at most";
  readonly value: number;
}
export const atLeast = (value: number): Goal => ({ is: "at least", value });
export const atMost = (value: number): Goal => ({ is: "at most", value });

export interface Measurement {
  /** First words of the row, e.g. "mlp, 256 connections". */
  readonly subject: string;
  /** Text for the baseline in the row, e.g. "of the raw loop". */
  readonly compared: string;
  /** Unit of the values; undefined for ratios. */
  readonly unit?: "ms" | "s";
  readonly goal?: Goal;
  /** Value of each repeat. */
  readonly values: readonly number[];
  /** The measured numbers behind the ratio, as text, e.g. rates. They hold for this machine only. */
  readonly details?: string;
  /** Number of requests without a succeeded prediction. */
  readonly failed?: number;
}

export interface Result extends Measurement {
  readonly case: string;
  /** Lowest and highest speed of the slower core during the measurement, as shares of its best speed in this run. */
  readonly cores: { readonly min: number; readonly max: number };
}

/** A text with three significant digits. */
export const rounded = (value: number) => Number(value.toPrecision(3)).toLocaleString("en");

/** The Markdown table: one row per result, with median, minimum and maximum of its repeats. */
export function formatReport(results: readonly Result[]): string {
  const rows = results.map(({ subject, compared, unit, goal, values }) => {
    const number = (value: number) => `${rounded(value)}${unit === undefined ? "" : ` ${unit}`}`;
    const reached = median(values);
    const isReached = goal && (goal.is === "at least" ? reached >= goal.value : reached <= goal.value);
    return [
      subject,
      compared,
      goal === undefined ? "" : `${goal.is === "at least" ? "≥" : "≤"} ${number(goal.value)}`,
      `${number(reached)}${isReached === undefined ? "" : isReached ? " ✓" : " ✗"}`,
      values.length > 1 ? `${number(Math.min(...values))} to ${number(Math.max(...values))}` : "",
    ];
  });
  const heads = ["what", "measured as", "goal", "median", "lowest to highest"];
  const [head = [], ...lines] = [heads, heads.map(() => "---"), ...rows].map((row) => row.map((cell) => `| ${cell}`));
  const absolute = results.map(({ case: name, failed = 0, cores, details = "" }) => {
    return [name, `${failed} failed`, `cores ${cores.min.toFixed(2)} to ${cores.max.toFixed(2)}`, details];
  });
  const processor = cpus()[0]?.model.trim() ?? "an unknown processor";
  const machine = `${availableParallelism()} cores of ${processor}, Bun ${Bun.version}, libtorch ${readLibtorch()?.version}`;
  return `${formatTable(head, lines)}

Measured ${new Date().toISOString().slice(0, 10)} on ${machine}.

${formatTable(["CASE", "REQUESTS", "MACHINE", "ABSOLUTE, HERE AND NOW"], absolute)}

Compared programs were measured alternately. Failed requests have no succeeded prediction. Cores: the speed of the slower of two cores
while nothing else was measured, as a share of its best speed in this run. Far below 1, other programs used the machine, and the row says little.`;
}
