/** A peer's Python environment in .sconce/bench/peers: its own packages at exact versions, and the torch that the set-up has. */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { missingTool } from "../../scripts/setup/command.ts";
import { z } from "../../src/model/z.ts";
import { Child } from "../child.ts";
import { folderOfAll, python } from "../networks.ts";

export interface Environment {
  /** The interpreter. */
  readonly python: string;
  /** The folder of the interpreter's shared library. */
  readonly libraries: string;
}

export const peersFolder = join(folderOfAll, "peers");

const STAMP = "installed.txt";

const question = `
import json, os, sysconfig
from importlib.util import find_spec
torch = find_spec("torch").submodule_search_locations[0]
print(json.dumps({
  "torch": os.path.dirname(torch), "hasVenv": find_spec("ensurepip") is not None,
  "isShared": sysconfig.get_config_var("Py_ENABLE_SHARED") == 1, "libraries": sysconfig.get_config_var("LIBDIR") or "",
}))`;
const answerSchema = z.object({
  torch: z.string(),
  hasVenv: z.boolean(),
  isShared: z.boolean(),
  libraries: z.string(),
});

/** The packages of requirements/NAME.txt, installed with pip where they are not there yet. */
export async function environment(
  name: string,
  { needsSharedPython = false }: { needsSharedPython?: boolean } = {},
): Promise<Environment> {
  const { command, env } = python();
  const { torch, hasVenv, isShared, libraries } = answerSchema.parse(
    JSON.parse(await Child.run([command, "-c", question], env)),
  );
  if (!hasVenv) throw new Error(missingTool(`${command} has no venv, which ${name} needs`, { apt: "python3-venv" }));
  if (needsSharedPython && !isShared)
    throw new Error(missingTool(`${command} has no shared library, which ${name} needs`, { apt: "libpython3-dev" }));

  const folder = join(peersFolder, name);
  const requirements = join(import.meta.dir, "requirements", `${name}.txt`);
  const stamp = [command, torch, readFileSync(requirements, "utf8")].join("\n");
  const stampFile = join(folder, STAMP);
  const interpreter = join(folder, "bin", "python");
  if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) {
    console.error(`  installing ${name} with pip, once`);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await Child.run([command, "-m", "venv", folder]);
    const purelib = 'import sysconfig; print(sysconfig.get_path("purelib"))';
    await writeFile(join(await Child.run([interpreter, "-c", purelib]), "torch.pth"), `${torch}\n`);
    // Without what they depend on: all of it is in the file, and some of it would bring another torch.
    const options = ["--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check"];
    await Child.run([interpreter, "-m", "pip", "install", ...options, "-r", requirements]);
    await writeFile(stampFile, stamp);
  }
  return { python: interpreter, libraries };
}

/** "0.9.8" of requirements/NAME.txt. */
export function pinnedVersion(name: string, distribution: string): string {
  const text = readFileSync(join(import.meta.dir, "requirements", `${name}.txt`), "utf8");
  const version = text.split("\n").find((line) => line.startsWith(`${distribution}==`));
  return version?.slice(distribution.length + 2) ?? "";
}
