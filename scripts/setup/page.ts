/** Step "page": build/page, what a browser loads of the model's page, bundled from src/page/client. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./command.ts";
import type { Step } from "./step.ts";
import { readText, root } from "./step.ts";

export const pageFolder = join(root, "build", "page");
const sources = join(root, "src", "page", "client");

export const page: Step = {
  name: "page",

  inputs() {
    if (!existsSync(sources)) return undefined;
    const { devDependencies } = JSON.parse(readText(join(root, "package.json")) ?? "{}");
    const names = readdirSync(sources).sort();
    return JSON.stringify([devDependencies.preact, Bun.version, names.map((name) => readText(join(sources, name)))]);
  },

  isIntact: () => ["page.js", "page.css"].every((name) => existsSync(join(pageFolder, name))),

  missingTools: async () => [],

  async run() {
    const { success, logs } = await Bun.build({
      entrypoints: [join(sources, "page.tsx"), join(sources, "page.css")],
      outdir: pageFolder,
      naming: "[name].[ext]",
      target: "browser",
      minify: true,
      define: { "process.env.NODE_ENV": '"production"' },
      throw: false,
    });
    if (!success) throw new Failure(logs.map(String));
    return "bundled for browsers";
  },
};
