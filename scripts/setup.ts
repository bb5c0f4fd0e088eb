/**
 * Makes this checkout ready to run: npm packages, libtorch, the addon and the page. A step runs again only when its
 * inputs have changed. This script imports nothing from node_modules, which it fills, and installs nothing outside the
 * checkout.
 */
import { accessSync, constants, mkdirSync } from "node:fs";
import { addon } from "./setup/addon.ts";
import { Failure } from "./setup/command.ts";
import { libtorch } from "./setup/libtorch.ts";
import { packages } from "./setup/packages.ts";
import { page } from "./setup/page.ts";
import { line, seconds } from "./setup/report.ts";
import type { Step } from "./setup/step.ts";
import { isDone, perform, state, withLock } from "./setup/step.ts";

export interface SetupOptions {
  /** Whether to show the output of all commands, and not only of failed ones. */
  verbose?: boolean;
  /** Whether to leave out libtorch and the addon, which take minutes. */
  isShort?: boolean;
  onDone?: (name: string) => void;
}

/** Runs the unfinished steps in order. If a step fails, prints the reason and ends the process with code 1. */
export async function setup(options: SetupOptions = {}): Promise<void> {
  const { verbose = false, isShort = false, onDone = () => {} } = options;
  const steps = isShort ? shortSteps : allSteps;
  if (steps.every(isDone)) {
    for (const step of steps) onDone(step.name);
    return;
  }
  try {
    requireWritable(steps.filter((step) => !isDone(step)));
    await withLock(async () => {
      await refuseIfToolsAreMissing(steps.filter((step) => !isDone(step)));
      for (const step of steps) {
        // Another set-up may have finished the step meanwhile, and the previous step may have changed its inputs.
        if (!isDone(step)) await perform(step, { verbose });
        onDone(step.name);
      }
    });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    for (const message of error.lines) console.error(message);
    process.exit(1);
  }
}

/** Whether all steps are done. The check takes a few milliseconds. */
export function isSetUp(): boolean {
  return allSteps.every(isDone);
}

const shortSteps: Step[] = [packages, page];
const allSteps: Step[] = [...shortSteps, libtorch, addon];

/** Refuses a checkout of another user or on a read-only disk. */
function requireWritable(pending: Step[]): void {
  try {
    mkdirSync(state, { recursive: true });
    accessSync(state, constants.W_OK);
  } catch {
    const names = pending.map(({ name }) => name).join(", ");
    throw new Failure([
      line(
        "✗",
        "set-up",
        `not done here for this PATH and LIBTORCH (${names}), and this user cannot write ${state}: use the PATH and LIBTORCH of the user who did it, or a checkout of your own`,
      ),
    ]);
  }
}

/** Fails with the names of all missing tools, before any download. */
async function refuseIfToolsAreMissing(pending: Step[]): Promise<void> {
  const missing = await Promise.all(pending.map((step) => step.missingTools()));
  const lines = [...new Set(missing.flat())];
  if (lines.length > 0) throw new Failure(lines.map((message) => line("✗", "missing", message)));
}

if (import.meta.main) {
  const options = process.argv.slice(2);
  const unknown = options.filter((option) => !["--verbose", "--quiet", "--short"].includes(option));
  if (unknown.length > 0) {
    console.error(
      `${unknown.join(" ")}: unknown; set-up knows --verbose, which shows what its commands print, --quiet, which says nothing where there is nothing to do, and --short, which leaves out libtorch and the addon`,
    );
    process.exit(2);
  }
  const began = performance.now();
  const isQuiet = options.includes("--quiet");
  const wasDone = !isQuiet && isSetUp();
  await setup({ verbose: options.includes("--verbose"), isShort: options.includes("--short") });
  if (wasDone) {
    console.error(line("✓", "set-up", "nothing to do", seconds(performance.now() - began)));
  }
}
