/** Detects a folder's package manager by its lock file. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

const adding = [
  ["package-lock.json", "npm install"],
  ["pnpm-lock.yaml", "pnpm add"],
  ["yarn.lock", "yarn add"],
  ["bun.lock", "bun add"],
  ["bun.lockb", "bun add"],
] as const;

/**
 * The command that adds npm packages: npm's, unless this folder or a parent has another package manager's lock file.
 */
export function installCommand(dir: string): string {
  const found = adding.find(([file]) => existsSync(join(dir, file)));
  if (found !== undefined) return found[1];
  const above = dirname(dir);
  return above === dir ? "npm install" : installCommand(above);
}
