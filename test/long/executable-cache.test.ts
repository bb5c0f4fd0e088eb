/** The folder in which an executable file caches its unpacked libraries. */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmod, chown, mkdir, open, readdir, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { cacheLocation, secureFolder } from "../../src/machine/libtorch/cache-folder.ts";
import { LibraryCache } from "../../src/machine/libtorch/library-cache.ts";
import { packLibraries } from "../../src/package/executable/library-pack.ts";
import { bareRoot, bareRootTest } from "../helpers/bare-root.ts";
import {
  digitsExecutable,
  failureOfProgram,
  predictExample,
  startExecutable,
  systemLibraries,
} from "../helpers/executable.ts";
import { failure as failureOf } from "../helpers/failure.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";

const inBareRoot = bareRootTest(test);
/** Cache folder with the unpacked libraries of the example digits, shared by all tests. Each test undoes its changes. */
let unpacked: string;
/** Messages of two executable files that started at once: one of them unpacks. */
let first: string[][];

// The cache is unpacked once for all tests, because unpacking takes three seconds of processor time.
const digits = fixture(digitsExecutable, 600_000);
const home = fixture(tempDir);
beforeAll(async () => {
  const env = { HOME: home.path };
  unpacked = home.join(".cache/sconce");
  for (let i = 0; i < 3; i++) {
    await using server = startExecutable(digits.path, [], env);
    await server.line("Unpacking");
    // The test sleeps because the kill must come at a random moment. A start takes one or two seconds.
    await Bun.sleep(Math.random() * 1000);
    server.kill("SIGKILL");
    await server.exited;
    // The test removes the libraries if unpacking ended before the kill, so that the next start unpacks again.
    const names = await readdir(unpacked);
    for (const name of names.filter((each) => each.startsWith("libtorch-")))
      await rm(join(unpacked, name), { recursive: true });
  }
  first = await Promise.all(Array.from({ length: 2 }, () => predictExample(digits.path, env)));
}, 600_000);

/** Checks that the cache contains only the lock and one folder of libraries. @returns the folder */
async function onlyFolder(cache: string): Promise<string> {
  const names = (await readdir(cache)).filter((name) => name !== ".lock");
  expect(names).toEqual([expect.stringMatching(/^libtorch-[0-9a-f]{16}$/)]);
  return join(cache, names[0] ?? "");
}

describe("unpacking", () => {
  test("that is killed at random moments harms no later start, and one of two concurrent starts unpacks", async () => {
    expect(first.flat().filter((line) => line.includes("Unpacking"))).toHaveLength(1);
    await onlyFolder(unpacked);
    expect(await predictExample(digits.path, { HOME: home.path })).toEqual([]);
  });

  test("that is stopped leaves nothing behind", async () => {
    await using cache = await tempDir();
    await using server = startExecutable(digits.path, [], { SCONCE_CACHE_DIR: cache.path });
    await server.line("Unpacking");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect((await readdir(cache.path)).filter((name) => name.startsWith(".unpacking"))).toEqual([]);
  });

  test("of a damaged executable file is refused", async () => {
    await using dir = await tempDir();
    await writeFile(dir.join("liba.so"), "a library".repeat(1000));
    const files = [{ name: "liba.so", path: dir.join("liba.so") }];
    const pack = await packLibraries(files, { cacheFolder: dir.join("packs") });
    await changeByte(pack.path, 12);
    const cache = new LibraryCache(dir.join("cache"));
    const listener = { unpacking() {}, waiting() {} };
    const fault = await failureOf(cache.unpacked({ ...pack, hasLibtorch: true }, listener));
    expect(fault).toBe("native_unavailable: liba.so in this executable is damaged; compile it or copy it again");
    expect(await readdir(dir.join("cache"))).toEqual([".lock"]);
  });

  test("makes files that other users cannot read, in the user's own folder", async () => {
    const folder = await onlyFolder(unpacked);
    for (const path of [unpacked, folder, ...(await readdir(folder)).map((name) => join(folder, name))]) {
      expect((await Bun.file(path).stat()).mode & 0o077).toBe(0);
    }
  });
});

async function changeByte(path: string, position: number): Promise<void> {
  const { mtime } = await Bun.file(path).stat();
  await chmod(path, 0o700);
  await using file = await open(path, "r+");
  const byte = new Uint8Array(1);
  await file.read(byte, 0, 1, position);
  await file.write(
    byte.map((value) => value ^ 1),
    0,
    1,
    position,
  );
  // The changed file keeps its modification time, which an attacker could set.
  await utimes(path, mtime, mtime);
}

/** Packs a file as an executable file contains it. */
async function smallPack() {
  const dir = await tempDir();
  await writeFile(dir.join("liba.so"), "small");
  const files = [{ name: "liba.so", path: dir.join("liba.so") }];
  const pack = await packLibraries(files, { cacheFolder: dir.join("packs") });
  const cache = new LibraryCache(dir.join("cache"));
  return {
    original: (name: string) => dir.join(name),
    unpack: () => cache.unpacked({ ...pack, hasLibtorch: true }, { unpacking() {}, waiting() {} }),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

describe("an unusable cache folder is reported with a fix", () => {
  const wayOut = "name a folder for them with SCONCE_CACHE_DIR";
  const root = fixture(bareRoot);
  beforeAll(async () => {
    await root.add({ "/server": digits.path, ...(await systemLibraries()) });
    await mkdir(join(root.path, "cache"));
  });

  for (const [what, options, reason] of [
    ["read-only", "mode=1777,ro", "/cache is read-only"],
    [
      "mounted noexec",
      "mode=1777,noexec",
      "/cache lies on a file system that is mounted noexec: libraries cannot be loaded from it",
    ],
    ["full", "mode=1777,size=100m", "/cache has 100.0 MiB left, but 416.5 MiB are needed"],
    ["denied", "mode=0755", "/cache cannot be written by this user"],
  ] as const) {
    inBareRoot(what, async () => {
      const program = root.run(["/server", "--port=0"], {
        env: { SCONCE_CACHE_DIR: "/cache" },
        tmpfs: { "/cache": options },
      });
      const { code, line } = await failureOfProgram(program);
      expect(line).toMatch(
        new RegExp(`^sconce: libraries cannot be kept: ${reason.replace(/[\d.]+ MiB are/, "[\\d.]+ MiB are")}; `),
      );
      expect(line).toEndWith(wayOut);
      expect(code).toBe(1);
    });
  }

  inBareRoot("another user's", async () => {
    const folder = await onlyFolder(unpacked);
    const told = async () =>
      (await failureOfProgram(startExecutable(digits.path, [], { SCONCE_CACHE_DIR: unpacked }))).line;
    await chmod(folder, 0o770);
    expect(await told()).toContain(`${folder} can be written by other users`);
    await chmod(folder, 0o700);
    if (process.getuid?.() !== 0) return;
    await chown(folder, 12345, 12345);
    expect(await told()).toContain(`${folder} belongs to another user`);
    await chown(folder, 0, 0);
  });

  test("if another user could change it, or put a symbolic link in its place", async () => {
    await using dir = await tempDir();
    await mkdir(dir.join("shared"));
    await chmod(dir.join("shared"), 0o777);
    const env = (name: string) => ({ SCONCE_CACHE_DIR: dir.join(name) });
    const shared = `sconce: libraries cannot be kept: ${dir.join("shared")} can be written by other users; ${wayOut}`;
    expect((await failureOfProgram(startExecutable(digits.path, [], env("shared")))).line).toBe(shared);
    await symlink(dir.join("shared"), dir.join("link"));
    expect((await failureOfProgram(startExecutable(digits.path, [], env("link")))).line).toBe(shared);
    // With the sticky bit, as /tmp has it, users can delete only their own files.
    await chmod(dir.join("shared"), 0o1777);
    const own = await onlyFolder(unpacked);
    const folder = dir.join("shared", basename(own));
    await rename(own, folder);
    expect(await predictExample(digits.path, env("shared"))).toEqual([]);
    await rename(folder, dir.join("elsewhere"));
    await symlink(dir.join("elsewhere"), folder);
    expect((await failureOfProgram(startExecutable(digits.path, [], env("shared")))).line).toContain(
      `${folder} is not a folder`,
    );
    await rename(dir.join("elsewhere"), own);
  });

  test("if another user could replace a parent folder", async () => {
    await using dir = await tempDir();
    await mkdir(dir.join("shared"));
    await mkdir(dir.join("shared", "own"), { mode: 0o700 });
    await chmod(dir.join("shared"), 0o777);
    const fault = await failureOf(() => secureFolder(dir.join("shared", "own")));
    expect(fault).toBe(
      `cache_unusable: libraries cannot be kept: ${dir.join("shared")} can be written by other users; ${wayOut}`,
    );
    await chmod(dir.join("shared"), 0o1777);
    expect(secureFolder(dir.join("shared", "own"))).toBe(dir.join("shared", "own"));
  });

  test.each([
    [{ XDG_CACHE_HOME: "/x", HOME: "/h" }, "linux", "/x/sconce"],
    [{ XDG_CACHE_HOME: "relative", HOME: "/h" }, "linux", "/h/.cache/sconce"],
    [{ HOME: "/h" }, "darwin", "/h/Library/Caches/sconce"],
  ] as const)("by default is in %j on %s, %s", (env, platform, folder) => {
    expect(cacheLocation(undefined, env, platform)).toBe(folder);
    expect(cacheLocation("/asked", env, platform)).toBe("/asked");
  });
});

test("a symbolic link to the cache is resolved once: changing it later does not change what is loaded", async () => {
  await using small = await smallPack();
  await mkdir(small.original("real"), { mode: 0o700 });
  await symlink(small.original("real"), small.original("cache"));
  const folder = await small.unpack();
  expect(dirname(folder)).toBe(small.original("real"));
  await rm(small.original("cache"));
  await symlink("/nowhere", small.original("cache"));
  expect(await Bun.file(join(folder, "liba.so")).text()).toBe("small");
});

test("packed libraries are packed once", async () => {
  await using dir = await tempDir();
  let packings = 0;
  const pack = async (content: string) => {
    await writeFile(dir.join("liba.so"), content);
    const { path } = await packLibraries([{ name: "liba.so", path: dir.join("liba.so") }], {
      cacheFolder: dir.join("packs"),
      onPacking: () => {
        packings += 1;
      },
    });
    return dirname(path);
  };
  const one = await pack("one");
  await pack("two");
  expect(await pack("one")).toBe(one);
  expect(packings).toBe(2);
});
