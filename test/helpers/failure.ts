/** The SconceError that something ends with, for tests that look at both its code and its message. */
import { SconceError } from "../../src/base/errors.ts";

/** Awaits (or calls) what must fail and gives the error; throws when it succeeds or fails in another way. */
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

/** The same as one text: its code and its message. */
export async function failure(task: Promise<unknown> | (() => unknown)): Promise<string> {
  const { code, message } = await failureOf(task);
  return `${code}: ${message}`;
}
