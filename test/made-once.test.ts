/** Files and folders that appear under their name only when they are complete. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { madeOnce } from "../src/machine/files/made-once.ts";
import { tempDir } from "./helpers/fixture.ts";

function folderOf(text: string) {
  return async (temporary: string) => {
    mkdirSync(temporary);
    writeFileSync(join(temporary, "text"), text);
  };
}

test("a file or folder gets its name when it is complete, and is made only once", async () => {
  await using dir = await tempDir();
  const path = dir.join("a/b");
  const { promise, resolve } = Promise.withResolvers<void>();
  const making = madeOnce(path, async (temporary) => {
    await folderOf("first")(temporary);
    await promise;
  });
  expect(existsSync(path)).toBe(false);
  resolve();
  expect(await making).toBe(path);
  await madeOnce(path, () => Promise.reject(new Error("made again")));
  expect(await Bun.file(join(path, "text")).text()).toBe("first");
  await madeOnce(dir.join("a/file"), async (temporary) => writeFileSync(temporary, "text"));
  expect(readdirSync(dir.join("a")).sort()).toEqual(["b", "file"]);
});

test("of several concurrent results, the first stays", async () => {
  await using dir = await tempDir();
  const { promise, resolve } = Promise.withResolvers<void>();
  const late = madeOnce(dir.join("folder"), async (temporary) => {
    await folderOf("late")(temporary);
    await promise;
  });
  await madeOnce(dir.join("folder"), folderOf("first"));
  resolve();
  await late;
  expect(await Bun.file(dir.join("folder/text")).text()).toBe("first");
  expect(readdirSync(dir.path)).toEqual(["folder"]);
});

test("a failure, or the end of the process, leaves nothing behind", async () => {
  await using dir = await tempDir();
  const failing = madeOnce(dir.join("folder"), async (temporary) => {
    await folderOf("half")(temporary);
    throw new Error("the disk is full");
  });
  expect(failing).rejects.toThrow("the disk is full");
  await failing.catch(() => {});
  const module = JSON.stringify(require.resolve("../src/machine/files/made-once.ts"));
  const script = `import { writeFileSync } from "node:fs";
    const { madeOnce } = await import(${module});
    await madeOnce(${JSON.stringify(dir.join("file"))}, async (temporary) => {
      writeFileSync(temporary, "half");
      process.exit(3);
    });`;
  expect(await Bun.spawn([process.execPath, "-e", script]).exited).toBe(3);
  expect(readdirSync(dir.path)).toEqual([]);
});
