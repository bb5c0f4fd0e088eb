/** The package manager of a folder, known by its lock file. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

const adding = [
  ["package-lock.json", "npm install"],
  ["pnpm-lock.yaml", "pnpm add"],
  ["yarn.lock", "yarn add"],
  ["bun.lock", "bun add"],
  ["bun.lockb", "bun add"],
] as const;

/** The command that adds npm packages to this folder: npm's, unless the folder or one above it has another lock file. */
export function installCommand(dir: string): string {
  const found = adding.find(([file]) => existsSync(join(dir, file)));
  if (found !== undefined) return found[1];
  const above = dirname(dir);
  return above === dir ? "npm install" : installCommand(above);
}
