/** Finds CMake and Ninja on this machine, or installs their wheels from PyPI into .sconce/tools. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { missingTool, run } from "./command.ts";
import { findPython } from "./python.ts";
import type { StepContext } from "./step.ts";
import { state } from "./step.ts";

const wheels = ["cmake==4.4.5", "ninja==1.13.2"];
const folder = join(state, "tools", wheels.join(","));
/** Folders of the programs in the wheels. */
const programs = ["cmake/data/bin", "bin"].map((each) => join(folder, each));

/** Lines for missing tools, if pip cannot install them. */
export async function missingBuildTools(): Promise<string[]> {
  const lines = [
    ...(has("cmake") ? [] : [missingTool("CMake", { apt: "cmake" })]),
    ...(has("ninja", "make") ? [] : [missingTool("Ninja or Make", { apt: "ninja-build", brew: "ninja" })]),
  ];
  const canInstall = lines.length > 0 && (existsSync(folder) || (await findPython())?.hasPip === true);
  return canInstall ? [] : lines;
}

/** Installs missing tools with pip. @returns environment variables with which CMake and Ninja are found */
export async function buildTools({ line, verbose }: StepContext): Promise<Record<string, string>> {
  if (has("cmake") && has("ninja", "make")) return {};
  const python = existsSync(folder) ? undefined : await findPython();
  if (python !== undefined) {
    line.update("installing CMake and Ninja with pip");
    mkdirSync(dirname(folder), { recursive: true });
    const unfinished = `${folder}-${process.pid}`;
    const options = ["--no-cache-dir", "--no-compile", "--no-input", "--disable-pip-version-check"];
    const target = ["--no-warn-script-location", "--target", unfinished, ...wheels];
    await run([python.executable, "-m", "pip", "install", ...options, ...target], { verbose, env: { PIP_USER: "0" } });
    rmSync(folder, { recursive: true, force: true });
    renameSync(unfinished, folder);
  }
  return { PATH: [...programs, process.env.PATH ?? ""].join(delimiter) };
}

function has(...names: string[]): boolean {
  return names.some((name) => Bun.which(name) !== null);
}
