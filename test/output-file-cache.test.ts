/** Decoded files of outputs are kept between requests, within the memory limit. */
import { expect, test } from "bun:test";
import { OutputFileCache } from "../src/http/output-file-cache.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";

const MiB = 2 ** 20;

/** A cache in an account of 64 MiB, which keeps 4 MiB of files, and a function that reads files and lists the opened ones. */
function cacheOf() {
  const memory = new MemoryAccount({ maxBytes: 64 * MiB });
  const cache = new OutputFileCache(memory);
  const opened: string[] = [];
  const read = (key: string, bytes = MiB) =>
    cache.file(key, async () => {
      opened.push(key);
      const headers = { "Content-Type": "text/plain", "Content-Disposition": "inline", ETag: `"${key}"` };
      return { bytes: new Uint8Array(bytes), headers };
    });
  return { memory, read, opened };
}

test("a file is opened once for many requests, also for requests at the same time", async () => {
  const { memory, read, opened } = cacheOf();
  await Promise.all([read("a"), read("a"), read("b")]);
  for (let i = 0; i < 10; i++) expect((await read("a")).headers.ETag).toBe('"a"');
  expect(opened).toEqual(["a", "b"]);
  expect(memory.parts.results).toBe(2 * MiB);
});

test("the file whose last use is the oldest makes room for another", async () => {
  const { memory, read, opened } = cacheOf();
  for (const key of ["a", "b", "c", "d", "a", "e", "a", "b"]) await read(key);
  expect(opened).toEqual(["a", "b", "c", "d", "e", "b"]);
  expect(memory.parts.results).toBe(4 * MiB);
});

test("a file that is too large, or that cannot be opened, is not kept", async () => {
  const { memory, read, opened } = cacheOf();
  for (let i = 0; i < 2; i++) await read("large", 5 * MiB);
  expect(opened).toEqual(["large", "large"]);
  const cache = new OutputFileCache(memory);
  const fail = () => cache.file("none", () => Promise.reject(new Error("no file")));
  for (let i = 0; i < 2; i++) await expect(fail()).rejects.toThrow("no file");
  expect(memory.parts.results).toBe(0);
});

test("files are dropped when memory runs short", async () => {
  const { memory, read, opened } = cacheOf();
  await read("a");
  using _ = memory.add("outputs", 64 * MiB);
  expect(memory.parts.results).toBe(0);
  await read("a");
  expect(opened).toEqual(["a", "a"]);
});
