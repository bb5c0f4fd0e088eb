import { expect, test } from "bun:test";
import { acquireLock, tryLock } from "../src/machine/files/lock.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";

test("a locked store is reported as busy, until the lock is released", async () => {
  await using dir = await tempDir();
  const path = dir.join(".lock");
  const held = acquireLock(path, 0);
  const error = await failureOf(() => acquireLock(path, 20));
  expect(error.code).toBe("store_busy");
  expect(error.message).toContain("after 0.02 s; try again when it has ended");
  expect(tryLock(path)).toBeUndefined();
  held.release();
  held.release();
  acquireLock(path, 0).release();
});
