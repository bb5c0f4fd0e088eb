/**
 * Runs a suite of programs: Python processes write folders of cases, and each complete folder is checked while Python
 * writes the next.
 */
import { rm } from "node:fs/promises";
import { checked } from "./checker.ts";
import { type Making, made } from "./maker.ts";
import { type Outcome, type Verdict, wrong } from "./verdict.ts";

export interface Counted {
  readonly programs: number;
  readonly counts: ReadonlyMap<Outcome, number>;
  /** Cases that Python could not make, each with the reason. */
  readonly skipped: readonly { readonly skipped: string; readonly reason: string }[];
  readonly refused: readonly Verdict[];
  readonly beyond: readonly Verdict[];
  readonly wrong: readonly Verdict[];
}

export interface SuiteOptions {
  /** Whether to keep the folders of cases. */
  readonly keep?: boolean;
  /** Device of the sessions. */
  readonly device?: string;
  readonly onFolder?: (counted: Counted) => Promise<void>;
}

/** Runs a suite. @param makings the Python processes, which run in parallel */
export async function runSuite(
  makings: readonly Making[],
  { keep = false, device = "cpu", onFolder }: SuiteOptions = {},
): Promise<Counted> {
  const counts = new Map<Outcome, number>();
  const programs = new Set<string>();
  const skipped: { skipped: string; reason: string }[] = [];
  const [refused, beyond, faults]: [Verdict[], Verdict[], Verdict[]] = [[], [], []];
  const counted = () => ({ programs: programs.size, counts, skipped, refused, beyond, wrong: faults });
  const check = async (folder: string) => {
    for await (const verdict of checked(folder, device)) {
      programs.add(verdict.case);
      counts.set(verdict.outcome, (counts.get(verdict.outcome) ?? 0) + 1);
      if (wrong.includes(verdict.outcome)) faults.push(verdict);
      else if (verdict.outcome === "beyond") beyond.push(verdict);
      else if (verdict.outcome === "refusedAtLoad" || verdict.outcome === "refusedAtRun") refused.push(verdict);
    }
    if (!keep) await rm(folder, { recursive: true });
    await onFolder?.(counted());
  };
  const one = async (making: Making) => {
    let checking = Promise.resolve();
    for await (const said of made(making)) {
      if ("skipped" in said) skipped.push(said);
      else checking = checking.then(() => check(said.folder));
    }
    await checking;
  };
  await Promise.all(makings.map(one));
  return counted();
}
