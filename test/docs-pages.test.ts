/**
 * The documentation pages: their links, their models, and a test for each page with commands. docs-NAME.test.ts, here or
 * in test/long, runs the commands of docs/NAME.md.
 */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Glob } from "bun";
import { tempDir } from "./helpers/fixture.ts";
import { anchorsOf, blocksOf, isRun, linksOf, readPages, testsOf } from "./helpers/readme.ts";

const root = resolve(import.meta.dir, "..");
const pages = await readPages();

test("each page with commands has a test that runs them", () => {
  const withCommands = pages.filter(({ text }) => blocksOf(text).some(isRun));
  expect(withCommands.length).toBeGreaterThan(3);
  expect(
    withCommands
      .filter(({ path }) => !testsOf(path).some((test) => existsSync(join(root, test))))
      .map(({ path }) => path),
  ).toEqual([]);
});

test("every model of the README and of docs/ type-checks", async () => {
  await using folder = await tempDir();
  const models = pages
    .flatMap(({ text }) => blocksOf(text))
    .filter(({ language, path }) => language === "ts" && path !== undefined);
  expect(models.length).toBeGreaterThan(4);
  for (const { path = "", content } of models) await Bun.write(folder.join(path), content);
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: {
      paths: { sconce: [join(root, "src/index.ts")], "sconce/testing": [join(root, "src/testing.ts")] },
      typeRoots: [join(root, "node_modules")],
    },
    include: models.map(({ path }) => path),
  };
  await Bun.write(folder.join("tsconfig.json"), JSON.stringify(config));
  const { exitCode, stdout } = await Bun.$`${root}/node_modules/.bin/tsc -p tsconfig.json`
    .cwd(folder.path)
    .nothrow()
    .quiet();
  expect({ exitCode, output: stdout.toString() }).toEqual({ exitCode: 0, output: "" });
}, 120_000);

test("the README's command for all tests is the command of CI", async () => {
  const [readme] = pages;
  const command = "npm test -- --all";
  expect(readme?.text).toContain(`\`${command}\``);
  expect((await readFile(join(root, ".ci", "run"), "utf8")).split("\n")).toContain(`exec ${command}`);
});

test("every link between pages leads to an existing file and heading", async () => {
  const others = await Array.fromAsync(new Glob("{*.md,bench/**/*.md,deploy/**/*.md,examples/*/README.md}").scan(root));
  const all = [...pages, ...others.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }))];
  const dead = all.flatMap(({ path, text }) =>
    linksOf(text)
      .filter((link) => {
        const [to = "", anchor] = link.split("#");
        const file = to === "" ? join(root, path) : join(root, dirname(path), to);
        if (!existsSync(file)) return true;
        return anchor !== undefined && !anchorsOf(readFileSync(file, "utf8")).has(anchor);
      })
      .map((link) => `${path}: ${link}`),
  );
  expect(dead).toEqual([]);
  expect(all.flatMap(({ text }) => linksOf(text)).length).toBeGreaterThan(20);
});
