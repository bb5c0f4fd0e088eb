/**
 * Makes this checkout ready to run: its packages, libtorch, the addon, the page. Finished steps are skipped and redone when what they
 * depend on has changed. Imports nothing from node_modules, which it fills, and installs nothing outside the checkout.
 */

import { accessSync, constants, mkdirSync } from "node:fs";
import { addon } from "./setup/addon.ts";
import { Failure } from "./setup/command.ts";
import { libtorch } from "./setup/libtorch.ts";
import { withLock } from "./setup/lock.ts";
import { packages } from "./setup/packages.ts";
import { page } from "./setup/page.ts";
import { line, seconds } from "./setup/report.ts";
import type { Step } from "./setup/step.ts";
import { isDone, perform, state } from "./setup/step.ts";

export interface SetupOptions {
  /** Shows what the commands of the steps print, which is otherwise shown only when they fail. */
  verbose?: boolean;
  /** Called when a step is done, now or before; with its name. */
  onDone?: (name: string) => void;
}

/** Does the steps that are not done, in order. Ends the process with code 1, and says why, if one cannot be done. */
export async function setup({ verbose = false, onDone = () => {} }: SetupOptions = {}): Promise<void> {
  if (isSetUp()) {
    for (const step of steps) onDone(step.name);
    return;
  }
  try {
    requireWritable(steps.filter((step) => !isDone(step)));
    await withLock(async () => {
      await refuseIfToolsAreMissing(steps.filter((step) => !isDone(step)));
      for (const step of steps) {
        // Asked again, in turn: another set-up may have done it while this one waited, or the step before changed its inputs.
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

/** Whether there is nothing to do; a few milliseconds. */
export function isSetUp(): boolean {
  return steps.every(isDone);
}

const steps: Step[] = [packages, libtorch, addon, page];

/** Says it before a step does in words of its own: a checkout that another user has set up, or one on a disk that is read-only. */
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

/** All at once and before anything is downloaded, so that a user installs what is missing in one go. */
async function refuseIfToolsAreMissing(pending: Step[]): Promise<void> {
  const missing = await Promise.all(pending.map((step) => step.missingTools()));
  const lines = [...new Set(missing.flat())];
  if (lines.length > 0) throw new Failure(lines.map((message) => line("✗", "missing", message)));
}

if (import.meta.main) {
  const options = process.argv.slice(2);
  const unknown = options.filter((option) => option !== "--verbose" && option !== "--quiet");
  if (unknown.length > 0) {
    console.error(
      `${unknown.join(" ")}: unknown; set-up knows --verbose, which shows what its commands print, and --quiet, which says nothing where there is nothing to do`,
    );
    process.exit(2);
  }
  const began = performance.now();
  const wasDone = isSetUp();
  await setup({ verbose: options.includes("--verbose") });
  if (wasDone && !options.includes("--quiet")) {
    console.error(line("✓", "set-up", "nothing to do", seconds(performance.now() - began)));
  }
}
