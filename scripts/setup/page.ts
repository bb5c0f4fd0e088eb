/** The set-up step "page": bundles src/http/page/client for browsers, into build/page. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import type { Step } from "./step.ts";
import { readText, root } from "./step.ts";

export const pageFolder = join(root, "build", "page");
const sources = join(root, "src/http/page/client");

export const page: Step = {
  name: "page",

  inputs() {
    if (!existsSync(sources)) return undefined;
    const { devDependencies } = JSON.parse(readText(join(root, "package.json")) ?? "{}");
    const bundled = ["eventsource-parser", "preact"].map((name) => devDependencies[name]);
    const names = readdirSync(sources).sort();
    return JSON.stringify([...bundled, Bun.version, ...names.map((name) => readText(join(sources, name)))]);
  },

  isIntact: () => ["page.js", "page.css"].every((name) => existsSync(join(pageFolder, name))),

  missingTools: async () => [],

  async run({ verbose }) {
    // Runs in a new process, because Bun remembers that this process found no node_modules at its start.
    const command = [
      process.execPath,
      "build",
      join(sources, "page.tsx"),
      join(sources, "page.css"),
      "--outdir",
      pageFolder,
    ];
    const options = ["--entry-naming", "[name].[ext]", "--target", "browser", "--minify"];
    const define = ["--define", 'process.env.NODE_ENV="production"'];
    await run([...command, ...options, ...define], { verbose });
    return "bundled for browsers";
  },
};
