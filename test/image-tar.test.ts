/** The tar archives of image layers, unpacked with GNU tar. */
import { expect, test } from "bun:test";
import { createWriteStream } from "node:fs";
import { open, stat, writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type TarEntry, tar } from "../src/package/image/tar.ts";
import { failure } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";

const bytes = (length: number) => new Uint8Array(length).fill(65);

test("GNU tar unpacks modes, times, long names and files of any size", async () => {
  await using dir = await tempDir();
  await writeFile(dir.join("source"), bytes(3_000_000));
  const long = `${"d".repeat(98)}/${"é".repeat(50)}`;
  const entries: TarEntry[] = [
    { kind: "folder", path: "folder", mode: 0o1777, uid: 12, gid: 34 },
    { kind: "folder", path: "e".repeat(99), mode: 0o755 },
    { kind: "folder", path: "d".repeat(98), mode: 0o755 },
    { kind: "file", path: long, mode: 0o600, source: bytes(7) },
    { kind: "file", path: "f".repeat(100), mode: 0o755, source: dir.join("source") },
    ...[0, 1, 511, 512, 513].map(
      (length): TarEntry => ({ kind: "file", path: `${length}`, mode: 0o644, source: bytes(length) }),
    ),
  ];
  await pipeline(Readable.from(tar(entries)), createWriteStream(dir.join("a.tar")));
  const { stdout, stderr } =
    await Bun.$`cd ${dir.path} && mkdir out && tar -xpvf a.tar -C out && tar -tvf a.tar --numeric-owner`.quiet();
  expect(stderr.toString()).toBe("");
  expect(stdout.toString()).toContain("drwxrwxrwt 12/34");
  for (const entry of entries) {
    const path = dir.join("out", entry.path);
    const found = await stat(path);
    expect([entry.path, found.mode & 0o7777]).toEqual([entry.path, entry.mode]);
    expect(found.mtimeMs).toBe(0);
    if (entry.kind !== "file") continue;
    const expected = typeof entry.source === "string" ? bytes(3_000_000) : entry.source;
    expect(Bun.hash(await Bun.file(path).bytes())).toBe(Bun.hash(expected));
  }
});

test("a file that grows while it is read is an error, not a damaged archive", async () => {
  await using dir = await tempDir();
  await writeFile(dir.join("source"), bytes(10));
  const archive = tar([{ kind: "file", path: "a", mode: 0o644, source: dir.join("source") }]);
  await archive.next();
  await writeFile(dir.join("source"), bytes(11));
  expect(await failure(async () => await Array.fromAsync(archive))).toContain("was changed while it was read");
});

test("a file of more than 8 GiB has its size in the header, and a path without a fitting slash is refused", async () => {
  await using dir = await tempDir();
  const path = dir.join("large");
  await using file = await open(path, "w");
  await file.truncate(2 ** 33 + 1);
  const archive = tar([{ kind: "file", path: "large", mode: 0o644, source: path }]);
  const { value } = await archive.next();
  // Closes the file, which the archive has read only in part.
  await archive.return?.(undefined);
  await writeFile(dir.join("a.tar"), value ?? "");
  expect(await Bun.$`tar -tvf ${dir.join("a.tar")}`.quiet().nothrow().text()).toContain(" 8589934593 ");
  const long = tar([{ kind: "file", path: "f".repeat(101), mode: 0o644, source: bytes(1) }]);
  expect(await failure(async () => await Array.fromAsync(long))).toContain("is too long for an archive");
});
