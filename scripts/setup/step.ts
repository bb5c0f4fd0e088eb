/** A step of the set-up, and how it is remembered that it was done: a stamp, a file with the hash of what it depended on. */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { StepLine } from "./report.ts";

export const root = dirname(dirname(import.meta.dir));
/** What the set-up makes for itself, git-ignored. */
export const state = join(root, ".sconce");

export interface Step {
  readonly name: string;
  /** What it depends on; asked at every start, so it has to be cheap. Undefined if what it depends on is not there yet. */
  inputs(): string | undefined;
  /** Whether what it made is still there. */
  isIntact(): boolean;
  /** One line for each tool that doing it takes and that this machine lacks. */
  missingTools(): Promise<string[]>;
  /** Does it and says in a few words what was done. */
  run(context: StepContext): Promise<string>;
}

export interface StepContext {
  line: StepLine;
  verbose: boolean;
}

export function isDone(step: Step): boolean {
  const inputs = step.inputs();
  return inputs !== undefined && readStamp(step.name) === hash(inputs) && step.isIntact();
}

export async function perform(step: Step, { verbose }: { verbose: boolean }): Promise<void> {
  // Gone while the step is at work, so that one that is cut short is not taken for done.
  rmSync(stampPath(step.name), { force: true });
  const line = new StepLine(step.name, "…");
  try {
    const summary = await step.run({ line, verbose });
    writeStamp(step.name, step.inputs() ?? "");
    line.done(summary);
  } catch (error) {
    line.failed("failed");
    throw error;
  }
}

/** Whether `inputs` is what was last stamped under this name. */
export function isStamped(name: string, inputs: string): boolean {
  return readStamp(name) === hash(inputs);
}

export function writeStamp(name: string, inputs: string): void {
  mkdirSync(dirname(stampPath(name)), { recursive: true });
  writeFileSync(stampPath(name), `${hash(inputs)}\n`);
}

export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function readStamp(name: string): string | undefined {
  return readText(stampPath(name))?.trim();
}

function stampPath(name: string): string {
  return join(state, "stamps", name);
}

function hash(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
