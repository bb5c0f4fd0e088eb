/** Detects a folder's package manager by its lock file. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

const addCommands = [
  ["package-lock.json", "npm install"],
  ["pnpm-lock.yaml", "pnpm add"],
  ["yarn.lock", "yarn add"],
  ["bun.lock", "bun add"],
  ["bun.lockb", "bun add"],
] as const;

/** The command that adds npm packages to the folder; `npm install` if no folder up to the root has a lock file. */
export function installCommand(dir: string): string {
  const found = addCommands.find(([file]) => existsSync(join(dir, file)));
  if (found !== undefined) return found[1];
  const parent = dirname(dir);
  return parent === dir ? "npm install" : installCommand(parent);
}
