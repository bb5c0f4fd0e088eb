/** The set-up step "packages": installs the npm packages in bun.lock, without install scripts. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import type { Step } from "./step.ts";
import { readText, root, state } from "./step.ts";

export const packages: Step = {
  name: "packages",

  inputs() {
    const { dependencies, devDependencies } = JSON.parse(readText(join(root, "package.json")) ?? "{}");
    return JSON.stringify([dependencies, devDependencies, readText(join(root, "bun.lock")), Bun.version]);
  },

  isIntact: () => existsSync(join(root, "node_modules")) && !wasFilledByNpm(),

  missingTools: async () => [],

  async run({ line, verbose }) {
    line.update("installing the packages of bun.lock");
    // Removes what npm has installed, because npm ignores bun.lock and installs other versions.
    if (wasFilledByNpm()) rmSync(join(root, "node_modules"), { recursive: true });
    const cache = `--cache-dir=${join(state, "cache")}`;
    await run([process.execPath, "install", "--frozen-lockfile", "--ignore-scripts", cache], { verbose });
    return "of bun.lock";
  },
};

function wasFilledByNpm(): boolean {
  return existsSync(join(root, "node_modules", ".package-lock.json"));
}
