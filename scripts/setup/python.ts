/** Finds the Python on the PATH. */
import { existsSync, realpathSync } from "node:fs";
import { ask } from "./command.ts";

export interface Python {
  /** Path of the interpreter itself, so that later changes of the PATH do not matter. */
  executable: string;
  /** Major and minor version: [3, 11]. */
  version: [number, number];
  /** Part of the names of extension modules: `cpython-311`. */
  tag: string;
  hasPip: boolean;
  /** Folder of the package torch; null without it. */
  torch: string | null;
}

const names = ["python3", "python"];

/**
 * Python code that prints facts about the interpreter. It finds torch without importing it, which would take seconds.
 */
const question = `
import json, sys
from importlib.util import find_spec
torch = find_spec("torch")
folders = list(torch.submodule_search_locations or []) if torch else []
print(json.dumps({
  "executable": sys.executable, "version": sys.version_info[:2], "tag": sys.implementation.cache_tag,
  "hasPip": find_spec("pip") is not None, "torch": folders[0] if folders else None,
}))`;

/** Finds the first Python that runs; `python3` comes before `python`. Undefined without one. */
export async function findPython(): Promise<Python | undefined> {
  for (const name of names) {
    const answer = Bun.which(name) === null ? undefined : await ask([name, "-c", question]);
    if (answer !== undefined) return JSON.parse(answer);
  }
  return undefined;
}

/** Text that changes with the Python on the PATH and with variables that select its packages. Runs no Python. */
export function pythonEnvironment(): string {
  const { PYTHONPATH, PYTHONHOME, VIRTUAL_ENV, CONDA_PREFIX, PYENV_VERSION } = process.env;
  // Path and real path are both needed: virtual environments link to one Python, and differ only in the path of the
  // link.
  const paths = names.map((name) => Bun.which(name)).filter((path) => path !== null && existsSync(path));
  return JSON.stringify([
    paths.map((path) => [path, realpathSync(path ?? "")]),
    [PYTHONPATH, PYTHONHOME, VIRTUAL_ENV, CONDA_PREFIX, PYENV_VERSION],
  ]);
}
