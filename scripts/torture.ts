/**
 * Injects faults into real servers and prints the results. The exit code is 0 if nothing was lost, wrong, stuck or left
 * over.
 */
import { parseArgs } from "node:util";
import { seeded } from "../test/helpers/loads.ts";
import { injectFault } from "../test/torture/fault.ts";
import { faults } from "../test/torture/faults.ts";
import { modelHome } from "../test/torture/model-home.ts";
import { type Counts, Tally } from "../test/torture/tally.ts";

const usage = `USAGE torture [FAULT…] [--long] [--seed N]

  --long    twenty kills and a hundred deaths instead of three, and measurements: about a quarter of an hour
  --seed N  decides when faults come, as far as the machine's timing lets it (default: a new one)

FAULTS (default: all)

${faults.map(({ name, title }) => `  ${name}: ${title}`).join("\n")}`;

const columns = ["injected", "survived", "checked", "givenUp", "lost", "wrong", "stuck", "leaked"] as const;

const options = read(process.argv.slice(2));
if (typeof options === "string") {
  console.error(options);
  process.exitCode = 2;
} else if (options.help) console.log(usage);
else process.exitCode = (await torture(options)) ? 0 : 1;

/** Injects the chosen faults. @returns whether nothing was lost, wrong, stuck or left over */
async function torture({ names, isLong, seed }: { names: readonly string[]; isLong: boolean; seed: number }) {
  console.log(`seed ${seed}`);
  await using home = await modelHome();
  const rows: [string, Counts | string][] = [];
  let isClean = true;
  for (const fault of faults.filter(({ name }) => names.length === 0 || names.includes(name))) {
    if (fault.lacking !== undefined) {
      rows.push([fault.name, `skipped: ${fault.lacking}`]);
      continue;
    }
    const began = performance.now();
    const tally = new Tally();
    await injectFault(fault, { tally, home, random: seeded(seed), isLong });
    isClean &&= tally.isClean;
    console.log(`${tally.isClean ? "✓" : "✗"} ${fault.name} (${((performance.now() - began) / 1000).toFixed(0)} s)`);
    for (const note of tally.notes) console.log(`    ${note}`);
    for (const problem of tally.problems) console.log(`  ✗ ${problem.replaceAll("\n", "\n      ")}`);
    rows.push([fault.name, tally.counts]);
  }
  console.log(`\n${table(rows)}`);
  return isClean;
}

function table(rows: readonly [string, Counts | string][]): string {
  const width = Math.max(...rows.map(([name]) => name.length), 5);
  const titles = columns.map((column) => (column === "givenUp" ? "given up" : column).padStart(9)).join("");
  const lines = rows.map(([name, counts]) => {
    const cells =
      typeof counts === "string" ? `  ${counts}` : columns.map((column) => String(counts[column]).padStart(9));
    return `${name.padEnd(width)}${typeof cells === "string" ? cells : cells.join("")}`;
  });
  return [`${"FAULT".padEnd(width)}${titles}`, ...lines].join("\n");
}

/** Parses the command line. @returns the options, or an error message */
function read(argv: string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        long: { type: "boolean", default: false },
        seed: { type: "string", default: String(Date.now() % 1_000_000) },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    const unknown = positionals.find((name) => !faults.some((fault) => fault.name === name));
    if (unknown !== undefined) {
      return `torture: unknown fault ${unknown}; known: ${faults.map(({ name }) => name).join(", ")}`;
    }
    if (!/^\d{1,9}$/.test(values.seed))
      return `torture: --seed must be a whole number, not ${JSON.stringify(values.seed)}`;
    return { names: positionals, isLong: values.long, seed: Number(values.seed), help: values.help };
  } catch (error) {
    return `torture: ${error instanceof Error ? error.message : error}`;
  }
}
