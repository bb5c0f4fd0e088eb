/** Returns the SconceError of a failing task, for tests that check its code and its message. */
import { SconceError } from "../../src/base/errors.ts";

/** Runs a task that must fail. @returns its error @throws if the task succeeds, or fails with another kind of error */
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

/** Code and message of a failing task's error, as one text. */
export async function failure(task: Promise<unknown> | (() => unknown)): Promise<string> {
  const { code, message } = await failureOf(task);
  return `${code}: ${message}`;
}
