/** Runs the cases that were asked for, one after the other, and reports them. */
import { messageOf } from "../src/errors.ts";
import { Canary } from "./canary.ts";
import { cases } from "./cases.ts";
import { missingWrk } from "./load.ts";
import type { Measurement } from "./measurement.ts";
import { formatReport, legend, machine } from "./report.ts";
import { saveResults } from "./results.ts";

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
  const measurements: Measurement[] = [];
  let broken = 0;
  for (const [name, measure] of Object.entries(cases)) {
    if (!names.includes(name)) continue;
    console.error(`measuring ${name}`);
    try {
      const measured = [await measure({ seconds, repeats, canary })].flat();
      measurements.push(...measured);
      const measuredAt = new Date().toISOString();
      const results = measured.map((each) => ({
        case: name,
        measuredAt,
        seconds,
        repeats,
        machine: machine(),
        ...each,
      }));
      if (json !== undefined) await saveResults(json, results);
    } catch (error) {
      broken += 1;
      console.error(`${name} could not be measured: ${messageOf(error)}`);
    }
  }
  const { cpu, cores, bun, libtorch } = machine();
  console.log(`\n${formatReport(measurements)}\n\n${legend}\n${cpu}, ${cores} cores; Bun ${bun}, libtorch ${libtorch}`);
  return broken;
}
