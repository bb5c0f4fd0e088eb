/** Fixtures: values that all tests of a file or of a `describe` share, and temporary folders. */
import { afterAll, beforeAll } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

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

export interface TempDir extends AsyncDisposable {
  /** Absolute path of the folder. */
  readonly path: string;
  /** Joins a path inside the folder. */
  join(...parts: string[]): string;
}

/** Makes an empty folder. `await using dir = await tempDir()` removes it with its content at the end of the scope. */
export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), "sconce-test-"));
  return {
    path,
    join: (...parts) => join(path, ...parts),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 3 }),
  };
}
