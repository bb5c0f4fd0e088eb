/**
 * Type checking, Biome and the tests; arguments go to `bun test`. The last line is `N passed, N failed`, in which type
 * checking and Biome count as one each.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { preparedModel } from "../examples/minilm/prepared.ts";
import { fetchBucketServer } from "../test/helpers/bucket.ts";
import { compiledUpscale } from "../test/helpers/compiled-upscale.ts";
import { fetchDebianTools } from "../test/helpers/debian-tools.ts";
import { packedLibraries } from "../test/helpers/executable.ts";
import { fakeCuda } from "../test/helpers/fake-cuda.ts";
import { compiledOperators } from "../test/helpers/operators.ts";
import { preparedImages } from "../test/helpers/prepared-images.ts";
import { fixtures } from "../test/helpers/weights.ts";
import { check } from "./check.ts";
import { line, StepLine, seconds } from "./setup/report.ts";
import { readText, root } from "./setup/step.ts";

/** Of a test that sets none: the machine may be busy with something else. */
const LIMIT_MS = 120_000;

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

const checks = await check();
await makeFixtures();
const tests = await runTests(process.argv.slice(2));
const [passed, failed] = [checks.passed + tests.passed, checks.failed + tests.failed];
if (tests.skipped > 0)
  console.log(`\n${tests.skipped} skipped, which need what this machine lacks (their names say what)`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

/**
 * What the tests compare with: weights of PyTorch, whose compiling takes minutes, and programs of Debian. Made once, and no
 * part of any test.
 */
async function makeFixtures(): Promise<void> {
  const step = new StepLine("fixtures", "weights made by PyTorch; compiling some of them takes a few minutes, once");
  const noteProblem = (what: string) => (problem: string | undefined) => {
    if (problem !== undefined) step.note(`without ${what}: ${problem}`);
  };
  // One after the other what keeps a core busy, the longest first; beside them what one thing waits for another, or the network.
  await Promise.all([
    inTurn([fixtures, compiledUpscale, fakeCuda]),
    inTurn([preparedModel, compiledOperators, packedLibraries, preparedImages]),
    fetchDebianTools().then(noteProblem("Debian's tools")),
    fetchBucketServer().then(noteProblem("a bucket")),
  ]);
  step.done("weights made by PyTorch, tools of Debian");
}

async function inTurn(tasks: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (const task of tasks) await task();
}

async function runTests(options: string[]): Promise<Counts> {
  const began = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "sconce-test-"));
  const report = join(folder, "report.xml");
  try {
    const child = Bun.spawn(
      [
        process.execPath,
        "test",
        ...parallel(),
        `--timeout=${LIMIT_MS}`,
        "--reporter=junit",
        `--reporter-outfile=${report}`,
        ...options,
      ],
      { cwd: root, stdin: "ignore", stdout: "inherit", stderr: "inherit" },
    );
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
    const code = await child.exited;
    const counts = count(readText(report), options);
    const problem = explain(counts, code, child.signalCode);
    const failed = counts.failed + (problem === undefined ? 0 : 1);
    console.error(line(failed === 0 ? "✓" : "✗", "tests", problem ?? "bun test", seconds(performance.now() - began)));
    return { ...counts, failed };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Files run side by side, one more than there are cores, as many tests wait for processes and timers. Each worker loads its
 * modules once: what Bun does by default with `--parallel`, a fresh global for each file, would load the addon again and again
 * into one process.
 */
function parallel(): string[] {
  return [`--parallel=${Math.min(4, availableParallelism() + 1)}`, "--no-isolate"];
}

/** What went wrong beyond the tests that the report counts as failed. */
function explain(counts: Counts, code: number | null, signal: string | number | null): string | undefined {
  if (signal) return `bun test was ended by ${signal}`;
  if (counts.failed > 0) return undefined;
  if (code !== 0) return `bun test ended with code ${code}`;
  return counts.passed === 0 ? "no test ran" : undefined;
}

/** From the totals of the JUnit report, which Bun writes when it gets to its end. */
function count(xml: string | undefined, options: string[]): Counts {
  const totals = xml?.match(/<testsuites [^>]*>/)?.[0] ?? "";
  const attribute = (name: string) => Number(totals.match(new RegExp(` ${name}="(\\d+)"`))?.[1] ?? 0);
  const [tests, failed, skipped] = [attribute("tests"), attribute("failures"), attribute("skipped")];
  // Bun reports the tests that a name pattern leaves out as skipped, too.
  const filtered = options.some((option) => option === "-t" || option.startsWith("--test-name-pattern"));
  return { passed: tests - failed - skipped, failed, skipped: filtered ? 0 : skipped };
}
