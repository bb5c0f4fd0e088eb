/**
 * Checks types and style, and runs the tests directly in `test/`. With `--all`, it runs `test/long/` too. Other
 * arguments go to `bun test`. The last line is `N passed, N failed`; scripts/check.ts counts as two tests.
 */

import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { line, StepLine, seconds } from "./setup/report.ts";
import { readText, root } from "./setup/step.ts";
import { setup } from "./setup.ts";

/** scripts/check.ts counts as this many tests in the totals, even if more of its checks fail. */
const CHECKS = 2;

/** Default time limit of a test in milliseconds, long enough for a busy machine. */
const LIMIT_MS = 120_000;

/** Maximum number of failed files that run a second time. More failures do not come from a busy machine. */
const MAX_FILES_AGAIN = 4;

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Folder of the tests that run only with `--all`, or if an argument names one of them. */
const LONG = join("test", "long");

/** Path of the command line as one file, which tests start. */
const program = join(root, ".sconce", "program", "sconce");

/** Maximum length of a failure's message in the summary, in characters. */
const MAX_MESSAGE = 3000;

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

const bunOptions = process.argv.slice(2).filter((option) => option !== "--all");
const longFiles = filesOf(LONG);
const isLong = process.argv.includes("--all") || longFiles.some((file) => isNamed(file, bunOptions));

// node_modules does not exist at the start, so scripts that import from it run as child processes. Checks and downloads
// run during the download of libtorch. Fixtures are made while the addon compiles.
const meanwhile: Record<string, Promise<number>> = {};
const forLong = isLong ? ["--long"] : [];
await setup({
  onDone(step) {
    if (step === "packages") {
      meanwhile.checks = child("check.ts");
      meanwhile.downloads = child("fixtures.ts", "downloads", ...forLong);
    }
    if (step === "libtorch") meanwhile.fixtures = child("fixtures.ts", "libtorch", ...forLong);
  },
});
const step = new StepLine("fixtures", "compiling weights takes a minute or more, once");
const made = [meanwhile.downloads, meanwhile.fixtures, child("fixtures.ts", "addon", program, ...forLong)];
if ((await Promise.all(made)).some((code) => code !== 0)) process.exit(1);
step.done("weights made by PyTorch, programs of Debian");
const failedChecks = Math.min((await meanwhile.checks) ?? CHECKS, CHECKS);
const tests = await runTests(
  isLong ? bunOptions : [`--path-ignore-patterns=${LONG}/**`, ...bunOptions],
  bunOptions.length === 0,
);
const [passed, failed] = [CHECKS - failedChecks + tests.passed, failedChecks + tests.failed];
if (tests.skipped > 0)
  console.log(`\n${tests.skipped} skipped, which need what this machine lacks (their names say what)`);
if (!isLong) console.log(`\n${longFiles.length} files of ${LONG} were not run: npm test -- --all`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

/** Paths of the test files in a folder, from the root of the checkout. */
function filesOf(folder: string): string[] {
  const path = join(root, folder);
  if (!existsSync(path)) return [];
  const names = readdirSync(path).filter((name) => name.endsWith(".test.ts"));
  return names.map((name) => join(folder, name));
}

/** Whether an argument is a part of the file's path. `bun test` runs such files. */
function isNamed(file: string, options: readonly string[]): boolean {
  const names = options.filter((option, i) => !option.startsWith("-") && !takesName(options[i - 1]));
  return names.some((name) => join(root, file).includes(name.replace(/^\.\//, "")));
}

/** Whether the argument after this option is a name of tests, not of files. */
function takesName(option: string | undefined): boolean {
  return option === "-t" || option === "--test-name-pattern";
}

/** Runs a script beside this one, and shows its output when it ends. @returns the exit code */
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

/**
 * Runs the files that the options of `bun test` choose. Failed files run again without the others if `mayRepeat`,
 * because a busy machine may fail a test.
 */
async function runTests(options: string[], mayRepeat: boolean): Promise<Counts> {
  const began = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "sconce-test-"));
  try {
    const first = await bunTest(options, folder);
    const files = [...new Set(first.failures.map(({ file }) => file))];
    const isAgain = mayRepeat && files.length > 0 && files.length <= MAX_FILES_AGAIN && !first.problem;
    const second = isAgain ? await bunTest(files, folder) : first;
    const failed = second.failures.length + (second.problem === undefined ? 0 : 1);
    // The failures are printed again, because thousands of lines of output follow them.
    for (const { text } of isAgain ? first.failures : []) console.log(`\nfailed beside other tests:\n${text}`);
    for (const { text } of second.failures) console.log(`\n${text}`);
    const what = second.problem ?? (isAgain ? `bun test, ${files.join(", ")} twice` : "bun test");
    console.error(line(failed === 0 ? "✓" : "✗", "tests", what, seconds(performance.now() - began)));
    return { passed: first.tests - second.failures.length, failed, skipped: first.skipped };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Failure {
  readonly file: string;
  readonly text: string;
}

interface Run {
  /** Number of tests that passed or failed. */
  readonly tests: number;
  readonly skipped: number;
  readonly failures: readonly Failure[];
  /** Why the run failed, if not by a failed test; undefined otherwise. */
  readonly problem: string | undefined;
}

async function bunTest(options: string[], folder: string): Promise<Run> {
  const report = join(folder, "report.xml");
  rmSync(report, { force: true });
  const child = Bun.spawn(
    [
      process.execPath,
      "test",
      ...parallel(),
      // Starts long files first, so that no core is idle at the end. `npm test -- --update-timings` updates the file.
      `--timings=${join("test", "timings.json")}`,
      `--timeout=${LIMIT_MS}`,
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      ...options,
    ],
    {
      cwd: root,
      env: { ...process.env, SCONCE_TEST_SHARED: join(folder, "shared"), SCONCE_TEST_PROGRAM: program },
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
    },
  );
  const end = (signal: NodeJS.Signals) => child.kill(signal);
  for (const signal of SIGNALS) process.on(signal, end);
  const code = await child.exited;
  for (const signal of SIGNALS) process.off(signal, end);
  const xml = readText(report);
  const { tests, skipped } = totals(xml, options);
  const failures = failuresIn(xml ?? "");
  return { tests, skipped, failures, problem: explain(tests, failures.length, code, child.signalCode) };
}

/**
 * Options that run several test files at a time: two more than cores, at most four, because many tests wait for
 * processes and timers. With `--no-isolate`, each worker process loads the addon only once.
 */
function parallel(): string[] {
  return [`--parallel=${Math.min(4, availableParallelism() + 2)}`, "--no-isolate"];
}

/** The reason why a run without a failed test has failed; undefined for other runs. */
function explain(
  tests: number,
  failed: number,
  code: number | null,
  signal: string | number | null,
): string | undefined {
  if (signal) return `bun test was ended by ${signal}`;
  if (failed > 0) return undefined;
  if (code !== 0) return `bun test ended with code ${code}`;
  return tests === 0 ? "no test ran" : undefined;
}

/** The failed tests in the JUnit report, each with name, place and message. */
function failuresIn(xml: string): Failure[] {
  const found: { file: string; name: string; message: string }[] = [];
  let file = "";
  let name = "";
  new HTMLRewriter()
    .on("testcase", {
      element(test) {
        file = test.getAttribute("file") ?? "";
        name = `${file}:${test.getAttribute("line")} ${test.getAttribute("name")}`;
      },
    })
    .on("failure", {
      // The element comes before its message. A test that timed out has no message.
      element() {
        found.push({ file, name, message: "" });
      },
      text(chunk) {
        const failure = found.at(-1);
        if (failure !== undefined) failure.message += chunk.text;
      },
    })
    .transform(xml);
  return found.map(({ file, name, message }) => ({
    file: plain(file),
    text: `✗ ${plain(name)}\n${plain(message).slice(0, MAX_MESSAGE)}`,
  }));
}

function plain(xml: string): string {
  return xml.replace(/&(?:#(\d+)|(\w+));/g, (_, code, entity) =>
    code === undefined ? (ENTITIES[entity] ?? "") : String.fromCodePoint(Number(code)),
  );
}

/** Totals in the JUnit report, which Bun writes at the end of the run. */
function totals(xml: string | undefined, options: string[]): Pick<Run, "tests" | "skipped"> {
  const element = xml?.match(/<testsuites [^>]*>/)?.[0] ?? "";
  const attribute = (name: string) => Number(element.match(new RegExp(` ${name}="(\\d+)"`))?.[1] ?? 0);
  const skipped = attribute("skipped");
  // With a name pattern, Bun reports tests that do not match as skipped.
  const filtered = options.some((option) => takesName(option.split("=")[0]));
  return { tests: attribute("tests") - skipped, skipped: filtered ? 0 : skipped };
}
