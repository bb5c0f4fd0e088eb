/** Type-checks a model's folder with the TypeScript of the folder, otherwise with sconce's. */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { temporaryFolder } from "../../machine/files/temporary-folder.ts";
import { isExecutable } from "../../machine/processes/program.ts";
import { modelFile } from "../../package/code/bundle.ts";
import { sourcesFolder } from "../../package/executable/sources.ts";
import { restoreTypes } from "../commands/init/types-link.ts";
import type { Finding } from "./finding.ts";

/** Maximum type errors that become findings. */
const MAX_ERRORS = 10;

/** Matches compiler errors in the folder's files or settings, but not in npm packages or sconce. */
const ownError = /^(?!\.\.\/|\/|node_modules\/|\.sconce\/).*\berror TS\d+: /;

/** Type errors of model.ts as findings. Logs why no check ran, unless the folder has no tsconfig.json. */
export async function typeFindings(dir: string, ended?: AbortSignal): Promise<Finding[]> {
  const [file, settings] = [modelFile(dir), nearest(dir, "tsconfig.json")];
  if (file === undefined || settings === undefined) return [];
  const errors = await typeErrors({ dir, file, settings }, ended);
  if (typeof errors === "string" && ended?.aborted !== true) log.info(`types were not checked: ${errors}`);
  return (typeof errors === "string" ? [] : errors).slice(0, MAX_ERRORS).map((line) => {
    return { mistake: "types", error: new SconceError("model_invalid", line), python: undefined, effect: "refused" };
  });
}

/**
 * Type-checks model.ts and its imports with the settings of the nearest tsconfig.json.
 * @param ended an abort ends the compiler
 * @returns errors such as `model.ts(12,3): error TS2339: …`, or why no check ran
 */
async function typeErrors(
  { dir, file, settings }: Readonly<Record<"dir" | "file" | "settings", string>>,
  ended?: AbortSignal,
): Promise<readonly string[] | string> {
  if (!/\.m?ts$/.test(file)) return `${file} is not TypeScript`;
  const compiler = (await compilerFrom(dir)) ?? (await compilerFrom(await sourcesFolder()));
  if (compiler === undefined) return "there is no package typescript: npm install -D typescript";
  await restoreTypes(dir);
  using folder = temporaryFolder(await cacheOf(dirname(settings)), "sconce-types-");
  const config = { extends: settings, compilerOptions: { noEmit: true }, files: [file], include: [] };
  await writeFile(join(folder.path, "tsconfig.json"), JSON.stringify(config));
  const child = Bun.spawn([process.execPath, "--bun", compiler, "-p", folder.path, "--pretty", "false"], {
    cwd: dir,
    env: { ...process.env, ...(isExecutable && { BUN_BE_BUN: "1" }) },
    stdin: "ignore",
    ...(ended && { signal: ended }),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, failure, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  const errors = output.split("\n").filter((line) => ownError.test(line));
  const hasRun = code === 0 || output.includes("error TS");
  return hasRun ? errors : `${compiler} failed: ${failure.trim().split("\n").at(-1)}`;
}

/**
 * Folder for a temporary settings file. It is in node_modules, because TypeScript resolves "types" relative to the
 * file; without node_modules, it is the system's folder for temporary files.
 */
async function cacheOf(project: string): Promise<string> {
  const packages = join(project, "node_modules");
  if (!existsSync(packages)) return tmpdir();
  const cache = join(packages, ".cache");
  await mkdir(cache, { recursive: true });
  return cache;
}

function nearest(dir: string, name: string): string | undefined {
  const path = join(dir, name);
  if (existsSync(path)) return path;
  const above = dirname(resolve(dir));
  return above === resolve(dir) ? undefined : nearest(above, name);
}

const packageSchema = z.looseObject({ bin: z.looseObject({ tsc: z.string() }) });

/** Path of tsc in the package typescript that modules in this folder would import; undefined without the package. */
async function compilerFrom(dir: string): Promise<string | undefined> {
  const found = nearest(dir, "node_modules/typescript/package.json");
  if (found === undefined) return undefined;
  const { data } = packageSchema.safeParse(await Bun.file(found).json());
  return data && join(dirname(found), data.bin.tsc);
}
