/** Builds models as executable files, and runs them. */
import { expect } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { thisArchitecture } from "../../src/base/platform-package.ts";
import { loaders } from "../../src/machine/libtorch/linked-libraries.ts";
import { libraryFiles } from "../../src/package/executable/library-files.ts";
import { packLibraries } from "../../src/package/executable/library-pack.ts";
import { type CliResult, cli, clientOf, follow, type RunningCli } from "./cli.ts";
import { tempDir } from "./fixture.ts";
import { cacheFolder } from "./machine.ts";
import { shared } from "./shared.ts";

/**
 * Packs the libraries of executable files at a low compression level, which takes a fifth of the time. Tests do not
 * measure the compression.
 */
export async function packedLibraries(): Promise<void> {
  const { addon, libtorch } = await libraryFiles();
  await packLibraries([addon, ...libtorch], { cacheFolder, level: 1 });
}

const digits = join(import.meta.dir, "../../examples/digits");

/** An executable file, for `await using`: the end of the scope removes it. */
export interface Executable extends AsyncDisposable {
  readonly path: string;
  /** Reference of the model that the file contains. */
  readonly reference: string;
  readonly compiling: Pick<CliResult, "stdout" | "stderr">;
}

/** The example `digits` as an executable file. All tests share the file, so they must not change it. */
export async function digitsExecutable(): Promise<Executable> {
  const folder = await shared("digits-executable", async (unfinished) => {
    await using own = await executable(digits);
    await rename(own.path, join(unfinished, "server"));
    await Bun.write(join(unfinished, "said.json"), JSON.stringify([own.reference, own.compiling.stderr]));
  });
  if (folder === undefined) return executable(digits);
  const path = join(folder, "server");
  const [reference, stderr] = z.tuple([z.string(), z.string()]).parse(await Bun.file(join(folder, "said.json")).json());
  return { path, reference, compiling: { stdout: `${path}\n`, stderr }, [Symbol.asyncDispose]: async () => {} };
}

/**
 * Builds a model folder and compiles it to an executable file. @param options options of `sconce compile` @param
 * further environment variables of `sconce build` and `sconce compile`
 */
export async function executable(
  folder: string,
  options: readonly string[] = [],
  further: Readonly<Record<string, string>> = {},
): Promise<Executable> {
  const dir = await tempDir();
  const env = { SCONCE_HOME: dir.join("home"), SCONCE_CACHE_DIR: cacheFolder, ...further };
  // Tests compare bytes of executable files, so the command line runs from the sources.
  const ofSources = { env, isSource: true };
  const built = await cli(["build", folder], ofSources);
  if (built.code !== 0) throw new Error(built.stderr);
  const path = dir.join("server");
  const compiling = await cli(["compile", "-o", path, ...options], ofSources);
  if (compiling.code !== 0) throw new Error(compiling.stderr);
  return {
    path,
    reference: built.stdout.trim(),
    compiling,
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

/**
 * The machine's loader and C and C++ libraries, as `BareRoot.add` takes them. An executable file needs no other
 * library.
 */
export async function systemLibraries(): Promise<Record<string, string>> {
  const names = ["c", "m", "dl", "rt", "pthread", "stdc++", "gcc_s"].map(
    (name) => new RegExp(`/lib${name.replaceAll("+", "\\+")}\\.so\\.\\d+$`),
  );
  const list =
    await Bun.$`${Bun.which("ldconfig", { PATH: `${process.env.PATH}:/sbin:/usr/sbin` }) ?? "ldconfig"} -p`.text();
  const wanted = process.arch === "arm64" ? "AArch64" : "x86-64";
  const found = [...list.matchAll(/^\t(\S+) \(([^)]*)\) => (\S+)$/gm)].filter(
    ([, , kind = "", path = ""]) => kind.includes(wanted) && names.some((name) => name.test(path)),
  );
  const loader = loaders[thisArchitecture()];
  return Object.fromEntries([...found.map(([, , , path = ""]) => [path, path]), [loader, loader]]);
}

/**
 * Runs an executable file with only these environment variables. It serves on a free loopback port unless `args` has
 * `predict`.
 */
export function startExecutable(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): RunningCli {
  const all = args.includes("predict") ? args : ["--port=0", "--host=127.0.0.1", ...args];
  return follow(Bun.spawn([path, ...all], { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
}

/** Starts a server from an executable file, and stops it once it is ready. @returns its messages about unpacking */
export async function startAndStop(
  path: string,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<string[]> {
  await using server = startExecutable(path, args, env);
  await clientOf(server);
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
  return unpackingOf(server);
}

/** Runs the example of an executable file's model. @returns the messages about unpacking */
export async function predictExample(
  path: string,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<string[]> {
  await using program = startExecutable(path, ["predict", "--example", ...args], env);
  expect([await program.exited, await program.stdout]).toEqual([0, expect.stringContaining("{")]);
  return unpackingOf(program);
}

function unpackingOf({ lines }: RunningCli): string[] {
  // Keeps the lines about unpacking, and removes the time at their beginning.
  return lines
    .filter((line) => /unpack/i.test(line))
    .map((line) => line.replace(/^\S+Z(?= )/, "").replace(/^ (?=ℹ)/, ""));
}

/** Waits until an executable file has failed. @returns its exit code and the last line of standard error */
export async function failureOfProgram(program: RunningCli): Promise<{ code: number; line: string }> {
  await using ended = program;
  const code = await ended.exited;
  await ended.stdout;
  return { code, line: ended.lines.filter(Boolean).at(-1) ?? "" };
}
