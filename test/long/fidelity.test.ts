/** A short form of `npm run fidelity`: sconce runs programs as PyTorch does, or refuses them. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { checked } from "../fidelity/checker.ts";
import { type Outcome, wrong } from "../fidelity/verdict.ts";
import { fidelityCases } from "../helpers/fidelity-cases.ts";

// The import of torch in Python takes many seconds on a busy machine.
setDefaultTimeout(300_000);

/**
 * Runs the cases that Python wrote into a folder. @returns the number of runs by outcome, and every wrong result with
 * its program
 */
async function check(folder: string) {
  const counts: Partial<Record<Outcome, number>> = {};
  const faults: string[] = [];
  for await (const { case: name, run, outcome, detail, source } of checked(folder)) {
    counts[outcome] = (counts[outcome] ?? 0) + 1;
    if (wrong.includes(outcome)) faults.push(`${name} (${run}): ${outcome}: ${detail}\n${source}`);
  }
  return { counts, faults };
}

test("operators of every dtype and random programs give the same outputs as PyTorch, or are refused", async () => {
  const folder = await fidelityCases();
  const seed = await Bun.file(join(folder, "seed")).text();
  console.log(`seed ${seed}: to repeat its programs, npm run fidelity -- programs --seed ${seed} --count 25`);
  const { counts, faults } = await check(folder);
  expect(faults).toEqual([]);
  expect(counts.same).toBeGreaterThan(150);
  expect(counts.bothRefuse).toBeGreaterThan(20);
});
