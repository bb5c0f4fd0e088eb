/** The commands of a checkout run the long steps of the set-up only after they have checked arguments and files. */

import { expect, test } from "bun:test";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { run as runProgram } from "./helpers/child-output.ts";
import { tempDir } from "./helpers/fixture.ts";
import { machineEnv } from "./helpers/machine.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";

const root = dirname(import.meta.dir);

test.each([
  [["--version"], 0],
  [["models"], 0],
  [["check", "typo"], 2],
  [["check", "without-weights"], 1],
  [["build", "typo.pt2"], 2],
  [["build", "without-weights"], 1],
  [["build", "without-weights", "--tags", "x"], 2],
  [["predict", "typo"], 1],
  [["predict", "./typo.pt2"], 2],
  [["serve", "typo"], 1],
  [["serve", "./typo"], 2],
  [["serve", "--prot", "1"], 2],
  [["dev", "typo"], 2],
  [["init", "new", "--from", "typo.pt2"], 2],
  [["compile", "typo"], 1],
  [["image", "typo", "-o", "images"], 1],
])("%j installs only packages", async (args, expected) => {
  const { code, setUps } = await run(args);
  expect({ code, setUps }).toEqual({ code: expected, setUps: ["--quiet --short"] });
});

test.each([[["check", "lab"]], [["build", "lab"]], [["dev", "lab"]], [["predict", "./lab"]], [["serve", "./lab"]]])(
  "%j runs the whole set-up, and ends if the set-up fails",
  async (args) => {
    const { code, setUps, output } = await run(args);
    expect({ code, setUps }).toEqual({ code: 1, setUps: ["--quiet --short", "--quiet"] });
    expect(output).toContain("the set-up failed (see above)");
  },
);

/** Runs a command of a checkout without libtorch, whose set-up records its options and fails in the long steps. */
async function run(args: readonly string[]) {
  await using dir = await tempDir();
  for (const name of ["sconce", "bun", "sconce.ts"]) cpSync(join(root, "scripts", name), dir.join("scripts", name));
  for (const name of ["src", "node_modules", "package.json"]) symlinkSync(join(root, name), dir.join(name));
  writeFileSync(
    dir.join("scripts/setup.ts"),
    `import { appendFileSync } from "node:fs";
    export const isSetUp = () => false;
    const options = process.argv.slice(2);
    if (import.meta.main) appendFileSync(import.meta.dir + "/set-ups", options.join(" ") + "\\n");
    if (import.meta.main && !options.includes("--short")) process.exit(1);`,
  );
  await writeModel(dir, modelText(), "lab");
  await writeModel(dir, modelText({ weights: '"missing.pt"' }), "without-weights");
  const env = {
    ...machineEnv,
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    SCONCE_HOME: dir.join("store"),
  };
  const { code, output } = await runProgram(["sh", "scripts/sconce", ...args], { cwd: dir.path, env });
  return {
    code,
    output,
    setUps: readFileSync(dir.join("scripts/set-ups"), "utf8").trim().split("\n"),
  };
}
