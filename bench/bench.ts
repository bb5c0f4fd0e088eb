/** Runs the cases that were asked for, one after the other, and reports them. */
import { messageOf } from "../src/errors.ts";
import { Canary } from "./canary.ts";
import { cases, peerCases } from "./cases.ts";
import { missingWrk } from "./load.ts";
import type { Measurement } from "./measurement.ts";
import { formatReport, legend, machine } from "./report.ts";

export interface BenchOptions {
  /** Names of cases; none means all but those beside other servers. */
  readonly names: readonly string[];
  readonly seconds: number;
  readonly repeats: number;
  /** Where to save what was measured, repeat by repeat. */
  readonly json: string | undefined;
}

/** @returns how many cases could not be measured; a goal that is missed is none of them */
export async function bench({ names, seconds, repeats, json }: BenchOptions): Promise<number> {
  const missing = missingWrk();
  if (missing !== undefined) throw new Error(missing);
  const canary = new Canary();
  const measurements: Measurement[] = [];
  let broken = 0;
  const asked = Object.entries({ ...cases, ...peerCases }).filter(([name]) => names.includes(name));
  for (const [name, measure] of names.length > 0 ? asked : Object.entries(cases)) {
    console.error(`measuring ${name}`);
    try {
      measurements.push(await measure({ seconds, repeats, canary }));
    } catch (error) {
      broken += 1;
      console.error(`${name} could not be measured: ${messageOf(error)}`);
    }
  }
  const { cpu, cores, bun, libtorch } = machine();
  console.log(`\n${formatReport(measurements)}\n\n${legend}\n${cpu}, ${cores} cores; Bun ${bun}, libtorch ${libtorch}`);
  if (json !== undefined) {
    const saved = { machine: machine(), seconds, repeats, measuredAt: new Date().toISOString(), measurements };
    await Bun.write(json, `${JSON.stringify(saved, null, 2)}\n`);
  }
  return broken;
}
