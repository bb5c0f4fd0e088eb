/**
 * Runs the benchmark and prints a table of ratios, each measured in one run. The exit code is 0 unless a case failed; a
 * missed goal does not count as failure.
 */
import { parseArgs } from "node:util";
import { Canary } from "../bench/canary.ts";
import { cases, casesNamed, groups } from "../bench/cases.ts";
import { missingWrk } from "../bench/load.ts";
import { comparedWithKept, keep } from "../bench/ratchet.ts";
import { formatReport, type Result } from "../bench/report.ts";
import { messageOf } from "../src/base/errors.ts";

const usage = `USAGE bench [CASE or GROUP…] [--seconds N] [--repeats N] [--json FILE] [--keep]

  --seconds N  how long one turn takes (default: 2); several times as long where batches or requests are slow
  --repeats N  how often each comparison is made (default: 5)
  --json FILE  writes what was measured, repeat by repeat, to a file
  --keep       writes the ratios of the group ratchet into bench/ratchet.json

CASES, by group (default: sconce)

${Object.entries(groups)
  .map(([name, { title, cases }]) => `${name}: ${title}\n\n  ${Object.keys(cases).join("\n  ")}`)
  .join("\n\n")}`;

const type = "string" as const;
const flags = {
  seconds: { type, default: "2" },
  repeats: { type, default: "5" },
  json: { type },
  keep: { type: "boolean", default: false },
  help: { type: "boolean", short: "h" },
} as const;

try {
  const { values, positionals } = parseArgs({ args: process.argv.slice(2), allowPositionals: true, options: flags });
  const named = positionals.length > 0 ? positionals : ["sconce"];
  const [seconds, repeats] = [values.seconds, values.repeats].map(Number);
  if (values.help) console.log(usage);
  else if (!isCount(seconds) || !isCount(repeats))
    throw new Error("--seconds and --repeats must be whole numbers from 1 to 9999");
  else process.exitCode = await bench(named.flatMap(casesNamed), { ...values, seconds, repeats });
} catch (error) {
  console.error(`bench: ${messageOf(error)}`);
  process.exitCode = 1;
}

function isCount(value: number | undefined): value is number {
  return Number.isInteger(value) && value !== undefined && value > 0 && value < 10_000;
}

interface BenchOptions {
  readonly seconds: number;
  readonly repeats: number;
  readonly json?: string | undefined;
  /** Whether to keep the ratios of the group `ratchet`. */
  readonly keep: boolean;
}

/** Measures the chosen cases and prints the table. @returns 1 if a case could not be measured, otherwise 0 */
async function bench(names: readonly string[], { seconds, repeats, json, keep: isKept }: BenchOptions) {
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
      const cores = canary.shares();
      all.push(...measured.map((each) => ({ case: name, cores, ...each })));
      if (json !== undefined) await Bun.write(json, JSON.stringify(all, null, 2));
    } catch (error) {
      broken = 1;
      console.error(`${name} could not be measured: ${messageOf(error)}`);
    }
  }
  console.log(`\n${formatReport(all)}`);
  const ratios = all.filter((result) => result.case.startsWith("ratchet-"));
  if (ratios.length > 0 && isKept) await keep(ratios);
  else if (ratios.length > 0) console.log(`\n${await comparedWithKept(ratios)}`);
  return broken;
}
