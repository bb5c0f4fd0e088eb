/** A step of the set-up. A finished step has a stamp: a file with the hash of its inputs. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { lockWhenFree } from "../../src/machine/files/lock.ts";
import { line, StepLine } from "./report.ts";

export const root = dirname(dirname(import.meta.dir));
/** Folder with files of the set-up, which git ignores. */
export const state = join(root, ".sconce");

export interface Step {
  readonly name: string;
  /**
   * Text that changes when the step must run again; undefined before the step can run. It is computed at every start,
   * so it must be cheap.
   */
  inputs(): string | undefined;
  /** Whether the step's results exist. */
  isIntact(): boolean;
  /** A line for each tool that the step needs and this machine lacks. */
  missingTools(): Promise<string[]>;
  /** Does the work. @returns a summary in a few words */
  run(context: StepContext): Promise<string>;
}

export interface StepContext {
  line: StepLine;
  verbose: boolean;
}

/** Runs the set-up under the checkout's lock. Other set-ups wait, and then find the work done. */
export async function withLock(work: () => Promise<void>): Promise<void> {
  mkdirSync(state, { recursive: true });
  const onWait = () => console.error(line(" ", "set-up", "another one is at work in this checkout; waiting for it"));
  using _lock = await lockWhenFree(join(state, "lock.sqlite"), { onWait });
  await work();
}

export function isDone(step: Step): boolean {
  const inputs = step.inputs();
  return inputs !== undefined && readStamp(step.name) === hash(inputs) && step.isIntact();
}

export async function perform(step: Step, { verbose }: { verbose: boolean }): Promise<void> {
  // Removes the stamp first, so that an interrupted step runs again.
  rmSync(stampPath(step.name), { force: true });
  const progress = new StepLine(step.name, "…");
  try {
    const summary = await step.run({ line: progress, verbose });
    writeStamp(step.name, step.inputs() ?? "");
    progress.done(summary);
  } catch (error) {
    progress.failed("failed");
    throw error;
  }
}

/** Whether the step with this name has finished with these inputs. */
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
