/** Runs the cases that were asked for, one after the other, and reports them. */
import { messageOf } from "../src/errors.ts";
import { Canary } from "./canary.ts";
import { cases } from "./cases.ts";
import { missingWrk } from "./load.ts";
import { type Result, resultOf, saveResults } from "./measurement.ts";
import { formatReport, machine } from "./report.ts";

export interface BenchOptions {
  /** Names of cases. */
  readonly names: readonly string[];
  readonly seconds: number;
  readonly repeats: number;
  /** The file that what was measured is added to, repeat by repeat. */
  readonly json: string | undefined;
}

/** @returns how many cases could not be measured; a goal that is missed is none of them */
export async function bench({ names, seconds, repeats, json }: BenchOptions): Promise<number> {
  const missing = missingWrk();
  if (missing !== undefined) throw new Error(missing);
  const canary = new Canary();
  const all: Result[] = [];
  let broken = 0;
  for (const [name, measure] of Object.entries(cases)) {
    if (!names.includes(name)) continue;
    console.error(`measuring ${name}`);
    try {
      const measured = [await measure({ seconds, repeats, canary })].flat();
      const found = { case: name, measuredAt: new Date().toISOString(), seconds, repeats, machine: machine() };
      const cores = canary.shares();
      const results = measured.map((each) => resultOf({ ...found, cores, ...each }));
      all.push(...results);
      if (json !== undefined) await saveResults(json, results);
    } catch (error) {
      broken += 1;
      console.error(`${name} could not be measured: ${messageOf(error)}`);
    }
  }
  console.log(`\n${formatReport(all)}`);
  return broken;
}
