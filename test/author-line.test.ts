/** Errors of a model's code name the line in the author's source file, not the line in the bundle. */
import { expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { messageWithLine } from "../src/base/author-line.ts";
import { build } from "../src/cli/commands/build.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";

const home = fixture(tempDir);

/**
 * Builds a model whose code may call two functions that throw: `broken` in line 6 of parts/helper.ts, and `lame` of an
 * npm package. @returns the error message
 */
async function lineOf(change: Readonly<Record<string, string>>, end = ""): Promise<string> {
  await using dir = await tempDir();
  const imports =
    'import { broken, type Fault } from "./parts/helper.ts";\nimport { lame } from "lame";\nlet fault: Fault;\n';
  await writeModel(dir, imports + modelText(change) + end);
  await mkdir(dir.join("parts"));
  await Bun.write(
    dir.join("parts/helper.ts"),
    `export interface Fault {
  readonly why: string;
}

export function broken(why: string): never {
  throw new TypeError(why satisfies Fault["why"]);
}
`,
  );
  await Bun.write(dir.join("node_modules/lame/package.json"), '{"name":"lame","main":"index.js"}');
  await Bun.write(dir.join("node_modules/lame/index.js"), 'export function lame() {\n  throw new Error("lame");\n}\n');
  return messageWithLine(await failureOf(commandHere(build, [dir.path], { home: home.path })));
}

test.each([
  ["setup", { setup: '() => broken("s")' }, "the model's setup failed: s (parts/helper.ts:6)"],
  ["preprocess", { preprocess: '() => broken("p")' }, "preprocess failed: p (parts/helper.ts:6)"],
  ["postprocess", { postprocess: 'async () => broken("q")' }, "postprocess failed: q (parts/helper.ts:6)"],
  ["predict", { predict: '() => broken("r")' }, "predict failed: r (parts/helper.ts:6)"],
  [
    "a package that preprocess calls",
    { preprocess: "() => { const made = lame(); return made; }" },
    "preprocess failed: lame (model.ts:13)",
  ],
  ["a wrong use of sconce", { preprocess: "() => ({ x: tensor(new Float32Array(2), [3]) })" }, " (model.ts:13)"],
])("an error of %s names its line", async (_, change, end) => {
  expect(await lineOf(change)).toEndWith(end);
});

test("an error during loading names its line", async () => {
  expect(await lineOf({}, '\nbroken("at once");\n')).toEndWith("at once (parts/helper.ts:6)");
});
