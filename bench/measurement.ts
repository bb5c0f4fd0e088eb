/** What a case of the benchmark is given, and what it found. */
import type { Canary } from "./canary.ts";
import type { Spread } from "./turns.ts";

export interface CaseOptions {
  /** How long one turn takes; a whole number. */
  readonly seconds: number;
  readonly repeats: number;
  readonly canary: Canary;
}

export interface Goal {
  readonly is: "at least" | "at most";
  readonly value: number;
}

export const atLeast = (value: number): Goal => ({ is: "at least", value });
export const atMost = (value: number): Goal => ({ is: "at most", value });

/** What a plot shows of a measurement: points from left to right, in the units of its axes. */
export interface Line {
  readonly plot: "connections" | "offered";
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
  /** What the raw loop does at the same time, in items a second. */
  readonly limit: number;
}

export interface Measurement {
  /** "mlp, 256 connections" */
  readonly subject: string;
  /** "of the raw loop" */
  readonly compared: string;
  /** "" for a ratio, else what follows the number. */
  readonly unit: "" | "ms" | "s" | "MB";
  /** Undefined where nothing was set as a goal. */
  readonly goal?: Goal;
  readonly reached: Spread;
  /** One for each repeat. */
  readonly values: readonly number[];
  /** The numbers behind it, in words; absolute, so they hold for this machine and moment only. */
  readonly behind: string;
  /** Requests that were not answered with a prediction that succeeded. */
  readonly failed: number;
  readonly lines?: readonly Line[];
  /** What share of its speed the slower core had while this was measured, of the best in this run. */
  readonly cores: { readonly min: number; readonly max: number };
}

export function isReached({ goal, reached }: Measurement): boolean | undefined {
  if (goal === undefined) return undefined;
  return goal.is === "at least" ? reached.median >= goal.value : reached.median <= goal.value;
}
