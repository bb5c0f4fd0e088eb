/** Errors of tasks that must fail, for tests of code and message. */
import { expect } from "bun:test";
import { SconceError } from "../../src/base/errors.ts";

/** Runs a task that must fail with a SconceError. @returns the error @throws if the task succeeds or fails otherwise */
export async function failureOf(task: Promise<unknown> | (() => unknown)): Promise<SconceError> {
  let value: unknown;
  try {
    value = await (typeof task === "function" ? task() : task);
  } catch (error) {
    if (error instanceof SconceError) return error;
    throw new Error("expected a SconceError", { cause: error });
  }
  throw new Error(`expected a SconceError; it succeeded with ${Bun.inspect(value)}`);
}

/** Runs a task that must fail with a SconceError. @returns "code: message" */
export async function failure(task: Promise<unknown> | (() => unknown)): Promise<string> {
  const { code, message } = await failureOf(task);
  return `${code}: ${message}`;
}

/** What `toMatchObject` expects of a command that fails with this exit code and this text on standard error. */
export function refusal(code: number, part: string): object {
  return { code, stderr: expect.stringContaining(part) };
}
