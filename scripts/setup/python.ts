/** The Pythons on the PATH, and what can be known of them. */

import { closeSync, existsSync, openSync, readSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { ask } from "./command.ts";
import { readText, root } from "./step.ts";

export interface Python {
  /** The interpreter itself, not the name it was found by: what the PATH says later does not change it. */
  executable: string;
  /** [3, 11] */
  version: [number, number];
  /** `cpython-311`: what the names of its extension modules hold. */
  tag: string;
  hasPip: boolean;
  hasVenv: boolean;
  /** The folder of its package torch. */
  torch: string | null;
}

const names = ["python3", "python"];

/** Importing torch takes seconds; finding it does not. */
const question = `
import json, sys
from importlib.util import find_spec
torch = find_spec("torch")
folders = list(torch.submodule_search_locations or []) if torch else []
print(json.dumps({
  "executable": sys.executable, "version": sys.version_info[:2], "tag": sys.implementation.cache_tag,
  "hasPip": find_spec("pip") is not None, "hasVenv": find_spec("ensurepip") is not None, "torch": folders[0] if folders else None,
}))`;

/** Those that run, `python3` first. */
export async function pythonsOnPath(): Promise<Python[]> {
  const answers = await Promise.all(names.filter((name) => Bun.which(name)).map((name) => ask([name, "-c", question])));
  const pythons = answers.filter((answer) => answer !== undefined).map((answer): Python => JSON.parse(answer));
  return pythons.filter((python, index) => pythons.findIndex((p) => p.executable === python.executable) === index);
}

/** Changes when another Python, or the same one with other packages on its path, would answer; runs none of them. */
export function pythonEnvironment(): string {
  const { PYTHONPATH, PYTHONHOME, VIRTUAL_ENV, CONDA_PREFIX, PYENV_VERSION } = process.env;
  return JSON.stringify([
    names.map((name) => identity(Bun.which(name))),
    [PYTHONPATH, PYTHONHOME, VIRTUAL_ENV, CONDA_PREFIX, PYENV_VERSION],
  ]);
}

function identity(path: string | null): string[] {
  if (path === null || !existsSync(path)) return [];
  // The link is kept beside what it points at: a virtual environment is told from its base only by where the link lies.
  const found = [path, realpathSync(path)];
  if (!isScript(path)) return found;
  // A version manager's shim: which Python it starts is said by files.
  const chosen = [join(root, ".python-version"), join(root, ".tool-versions"), join(dirname(dirname(path)), "version")];
  return [...found, ...chosen.map((file) => readText(file) ?? "")];
}

function isScript(path: string): boolean {
  const file = openSync(path, "r");
  try {
    const start = Buffer.alloc(2);
    readSync(file, start);
    return start.toString() === "#!";
  } finally {
    closeSync(file);
  }
}
