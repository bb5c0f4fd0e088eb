/**
 * Type checking, Biome and the tests; arguments go to `bun test`. The last line is `N passed, N failed`, in which type
 * checking and Biome count as one each.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { line, StepLine, seconds } from "./setup/report.ts";
import { readText, root } from "./setup/step.ts";
import { setup } from "./setup.ts";

/** What scripts/check.ts checks: types and style. Its exit code says how many fail. */
const CHECKS = 2;

/** Of a test that sets none: the machine may be busy with something else. */
const LIMIT_MS = 120_000;

/** Characters of a failure that are shown once more at the end. */
const MAX_MESSAGE = 3000;

/** Of XML. */
const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

// Imports nothing from node_modules, which is not there when it begins: what needs it is a child. Both cores are kept at work: types and
// style are checked while libtorch is downloaded, and fixtures are made while the addon is compiled.
const meanwhile: Record<string, Promise<number>> = {};
await setup({
  onDone(step) {
    if (step === "packages") meanwhile.checks = child("check.ts");
    if (step === "libtorch") meanwhile.fixtures = child("fixtures.ts", "libtorch");
  },
});
const step = new StepLine("fixtures", "compiling weights takes a few minutes, once");
if ((await Promise.all([meanwhile.fixtures, child("fixtures.ts", "addon")])).some((code) => code !== 0))
  process.exit(1);
step.done("weights made by PyTorch, packed libraries, tools of Debian");
const failedChecks = Math.min((await meanwhile.checks) ?? CHECKS, CHECKS);
const tests = await runTests(process.argv.slice(2));
const [passed, failed] = [CHECKS - failedChecks + tests.passed, failedChecks + tests.failed];
if (tests.skipped > 0)
  console.log(`\n${tests.skipped} skipped, which need what this machine lacks (their names say what)`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

/** Runs a script beside this one, and shows what it says when it ends. @returns its exit code */
async function child(script: string, ...options: string[]): Promise<number> {
  const command = [process.execPath, "--no-install", join(import.meta.dir, script), ...options];
  const running = Bun.spawn(command, { cwd: root, stdin: "ignore", stdout: "inherit", stderr: "pipe" });
  const end = () => running.kill();
  process.on("exit", end);
  const said = await new Response(running.stderr).text();
  const code = await running.exited;
  process.off("exit", end);
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[2K${said}` : said);
  return code;
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
        // What took longest goes first, so that no long file is left to one core at the end. Made anew by `npm test -- --update-timings`.
        `--timings=${join("test", "timings.json")}`,
        `--timeout=${LIMIT_MS}`,
        "--reporter=junit",
        `--reporter-outfile=${report}`,
        ...options,
      ],
      {
        cwd: root,
        env: { ...process.env, SCONCE_TEST_SHARED: join(folder, "shared") },
        stdin: "ignore",
        stdout: "inherit",
        stderr: "inherit",
      },
    );
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
    const code = await child.exited;
    const xml = readText(report);
    const counts = count(xml, options);
    const problem = explain(counts, code, child.signalCode);
    const failed = counts.failed + (problem === undefined ? 0 : 1);
    // Once more, where it is not lost among thousands of lines.
    for (const text of failures(xml ?? "")) console.log(`\n${text}`);
    console.error(line(failed === 0 ? "✓" : "✗", "tests", problem ?? "bun test", seconds(performance.now() - began)));
    return { ...counts, failed };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Files run side by side, two more than there are cores, as many tests wait for processes and timers. Each worker loads its
 * modules once: what Bun does by default with `--parallel`, a fresh global for each file, would load the addon again and again
 * into one process.
 */
function parallel(): string[] {
  return [`--parallel=${Math.min(4, availableParallelism() + 2)}`, "--no-isolate"];
}

/** What went wrong beyond the tests that the report counts as failed. */
function explain(counts: Counts, code: number | null, signal: string | number | null): string | undefined {
  if (signal) return `bun test was ended by ${signal}`;
  if (counts.failed > 0) return undefined;
  if (code !== 0) return `bun test ended with code ${code}`;
  return counts.passed === 0 ? "no test ran" : undefined;
}

/** Name, place and message of each test that failed, from the JUnit report. */
function failures(xml: string): string[] {
  const found: string[] = [];
  let name = "";
  let text = "";
  new HTMLRewriter()
    .on("testcase", {
      element(test) {
        name = `${test.getAttribute("file")}:${test.getAttribute("line")} ${test.getAttribute("name")}`;
      },
    })
    .on("failure", {
      element() {
        text = "";
      },
      text(chunk) {
        text += chunk.text;
        if (chunk.lastInTextNode) found.push(`✗ ${plain(name)}\n${plain(text).slice(0, MAX_MESSAGE)}`);
      },
    })
    .transform(xml);
  return found;
}

function plain(xml: string): string {
  return xml.replace(/&(?:#(\d+)|(\w+));/g, (_, code, entity) =>
    code === undefined ? (ENTITIES[entity] ?? "") : String.fromCodePoint(Number(code)),
  );
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
