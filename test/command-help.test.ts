/**
 * Help texts equal `snapshots/help-rm.txt` and docs/cli.md, which `UPDATE_HELP=1 bun test test/command-help.test.ts`
 * updates. Each option is read from its flag, else from its variable.
 */
import { describe, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "../src/author/z.ts";
import { flagOn, listOption, openOption, option } from "../src/base/option.ts";
import { commands } from "../src/cli/cli.ts";
import { flagName, peekOptions, variableName } from "../src/cli/command-line/command.ts";
import { commandHelp, defaultText } from "../src/cli/command-line/help.ts";
import { commonOptions } from "../src/server/config.ts";
import { cli } from "./helpers/cli.ts";
import { cliPage } from "./helpers/cli-page.ts";

const names = Object.keys(commands);
const loaded = await Promise.all(
  Object.entries(commands).map(async ([name, { description, load }]) => ({
    name,
    description,
    command: await load(),
  })),
);

async function expectFile(name: string, text: string): Promise<void> {
  const path = join(import.meta.dir, name);
  if (process.env.UPDATE_HELP) await Bun.write(path, text);
  expect(text).toBe(await readFile(path, "utf8"));
}

test("sconce rm --help", async () => {
  const { code, stdout, stderr } = await cli(["rm", "--help"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  await expectFile("snapshots/help-rm.txt", stdout);
});

test("sconce --help", async () => {
  const { stdout } = await cli(["--help"]);
  expect([...stdout.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name]) => name)).toEqual(names);
});

test("docs/cli.md has every command with its arguments and options", async () => {
  const page = await readFile(join(import.meta.dir, "../docs/cli.md"), "utf8");
  const [head = ""] = page.split("\n## sconce ");
  await expectFile("../docs/cli.md", `${head}\n${cliPage(loaded)}`);
  for (const [key, common] of Object.entries(commonOptions)) {
    const cells = [`--${flagName(key)}=`, defaultText(common) ?? "", common.description];
    expect(head.split("\n").some((line) => cells.every((cell) => line.includes(cell)))).toBe(true);
  }
});

test("--help shows about twenty options of serve, --help --all shows every option", async () => {
  const shown = async (...args: string[]) => {
    const { stdout } = await cli(["serve", "--help", ...args]);
    return [...stdout.matchAll(/^ {2}(?:-\w, )?--(?:\[no-\])?([a-z-]+)/gm)].map(([, name]) => name);
  };
  const all = Object.keys((await commands.serve?.load())?.options ?? {}).map(flagName);
  expect((await shown("--all")).toSorted()).toEqual(all.toSorted());
  const few = await shown();
  expect(few.length).toBeLessThan(25);
  for (const name of ["port", "batch-size", "device", "store", "log-level"]) expect(few).toContain(name);
});

test("no command shows more than 25 options without --all", () => {
  for (const { name, command } of loaded) {
    const shown = Object.values(command.options).filter(({ isAdvanced }) => !isAdvanced);
    expect({ name, isShort: shown.length <= 25 }).toEqual({ name, isShort: true });
  }
});

test("sconce help NAME prints the same as sconce NAME --help, and refuses an unknown name", async () => {
  expect((await cli(["help", "tag"])).stdout).toBe((await cli(["tag", "-h"])).stdout);
  expect(await cli(["help", "tagg"])).toMatchObject({
    code: 2,
    stderr: "sconce: unknown command tagg; did you mean tag?\n",
  });
});

describe("every option of every command", () => {
  test.each(loaded)("of $name has a default in help, and its own variable", ({ command, ...each }) => {
    const text = Bun.stripANSI(commandHelp(command, { ...each, width: 1000, isAll: true }));
    const variables = new Set<string>();
    for (const [key, one] of Object.entries(command.options)) {
      const stated = defaultText(one);
      if (one.default !== undefined) expect(stated).toBeDefined();
      if (stated !== undefined) expect(text).toContain(`${one.description} (default: ${stated}`);
      variables.add(variableName(key, one));
    }
    expect(variables.size).toBe(Object.keys(command.options).length);
  });

  test("is read from its flag, else from its variable, else has its default", () => {
    const text = z.string().transform((given) => `read ${given}`);
    const table = {
      sconceTestOne: option({ description: "", default: "default", parse: text }),
      sconceTestTwo: openOption<string>({ description: "", variable: "OTHER_SCONCE_TEST", parse: text }),
      sconceTestList: listOption({ description: "", alias: "l", parse: text }),
    };
    const read = (...args: string[]) => peekOptions(args, table);
    expect(read()).toEqual({ sconceTestOne: "default", sconceTestTwo: undefined, sconceTestList: [] });
    try {
      process.env.SCONCE_SCONCE_TEST_ONE = "a";
      process.env.OTHER_SCONCE_TEST = "b";
      process.env.SCONCE_SCONCE_TEST_LIST = "c\nd";
      expect(read("--sconce-test-two", "flag")).toEqual({
        sconceTestOne: "read a",
        sconceTestTwo: "read flag",
        sconceTestList: ["read c", "read d"],
      });
      expect(read("-l", "x", "--sconce-test-list=y", "-lz").sconceTestList).toEqual(["read x", "read y", "read z"]);
    } finally {
      delete process.env.SCONCE_SCONCE_TEST_ONE;
      delete process.env.OTHER_SCONCE_TEST;
      delete process.env.SCONCE_SCONCE_TEST_LIST;
    }
  });
});

test("a switch accepts true, false, 1 and 0, or no- before its name", () => {
  const table = { json: option({ description: "", ...flagOn }) };
  const read = (...args: string[]) => peekOptions(args, table).json;
  const given = [[], ["--no-json"], ["--json=false"], ["--json=0"], ["--json=true"], ["--json"]];
  expect(given.map((args) => read(...args))).toEqual([true, false, false, false, true, true]);
});
