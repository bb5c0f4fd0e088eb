/** What all tests of a file or of a `describe` use: a folder, a store, a server. */
import { afterAll, beforeAll } from "bun:test";

/** Values of the running file, in the order in which they were made. */
const values: unknown[] = [];

/**
 * Makes a value before the first test, and disposes of it after the last, later values first. @returns the value: its
 * members can be used as soon as the tests, or the makers of later fixtures, run
 */
export function fixture<T extends object>(make: () => T | Promise<T>, timeoutMs?: number): T {
  let value: T | undefined;
  beforeAll(async () => {
    value = await make();
    values.push(value);
  }, timeoutMs);
  afterAll(() => dispose(values.pop()));
  return new Proxy({} as T, {
    get(_, key) {
      if (value === undefined) throw new Error(`no test has begun, so there is no ${String(key)} yet`);
      const member: unknown = Reflect.get(value, key, value);
      return typeof member === "function" ? member.bind(value) : member;
    },
  });
}

async function dispose(value: unknown): Promise<void> {
  if (typeof value !== "object" || value === null) return;
  if (Symbol.asyncDispose in value) await (value as AsyncDisposable)[Symbol.asyncDispose]();
  else if (Symbol.dispose in value) (value as Disposable)[Symbol.dispose]();
}
