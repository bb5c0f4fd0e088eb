/** `sconce predict`: files in outputs, and the model's demo. */
import { describe, expect, test } from "bun:test";
import { predict as command } from "../src/cli/commands/predict.ts";
import { boxModel } from "./helpers/box-model.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

const image = `image=${modelFolder("picture")}/white.png`;

const dir = fixture(tempDir);
const store = fixture(async () => {
  await using source = await tempDir();
  const links = modelText({
    name: '"links"',
    input: 'z.object({ x: z.number(), link: z.string().meta({ format: "uri" }) })',
    output: "z.object({ link: z.string() })",
    example: '{ x: 1, link: "a" }',
    postprocess: "(_, { input: { link } }) => ({ link })",
  });
  return await storeWith(
    "lab",
    "picture",
    await writeModel(source, boxModel, "box"),
    await writeModel(source, links, "links"),
  );
});

const predict = (...args: string[]) => store.cli(["predict", ...args], { cwd: dir.path });
const here = (...args: string[]) => commandHere(command, args, { home: store.home, cwd: dir.path });
const textOf = (name: string) => Bun.file(dir.join(name)).text();

test("-o FILE saves the only file of the output, and prints its path instead", async () => {
  const { code, stdout } = await predict("picture", image, "-o", "swatch.png");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual({ mean: [255, 255, 255], swatch: "swatch.png" });
  expect(await new Bun.Image(await Bun.file(dir.join("swatch.png")).bytes()).metadata()).toMatchObject({
    width: 1,
    height: 1,
  });
});

test("a URL field gets the text as it is: only image() and file() fields read files", async () => {
  await Bun.write(dir.join("foo"), "secret");
  const { stdout } = await predict("links", "x=1", "link=foo");
  expect(JSON.parse(stdout)).toEqual({ link: "foo" });
});

test("-o field=FILE saves one of several files, can be repeated, and accepts indices of lists", async () => {
  const printed = await here("box", "number=1", "-o", "note=note.txt", "--output=parts.1.crop=crop.txt");
  expect(JSON.parse(printed)).toMatchObject({
    note: "note.txt",
    parts: [{ crop: "data:text/plain;base64,Zmlyc3Q=" }, { crop: "crop.txt" }],
  });
  expect([await textOf("note.txt"), await textOf("crop.txt")]).toEqual(["the note", "second".repeat(100)]);
});

test("-o - writes only the file to standard output", async () => {
  expect((await predict("box", "number=1", "-o", "note=-")).stdout).toBe("the note");
});

test("without -o, a data URI is printed whole into a pipe, and shortened on a terminal with a hint", async () => {
  const piped = JSON.parse((await predict("box", "number=1")).stdout);
  expect(piped.parts[1].crop).toBe(`data:text/plain;base64,${btoa("second".repeat(100))}`);
  const { screen } = await store.cliOnTerminal(["predict", "box", "number=1"], { cwd: dir.path });
  expect(screen).toContain('"crop": "data:text/plain;base64,c2Vjb25kc2Vjb25kc… (600 B)"');
  expect(Bun.stripANSI(screen)).toContain("parts.1.crop is cut short here; save with -o FILE");
});

test.each([
  ["-o for an output without files", ["lab", "x=1", "-o", "y.txt"], "the output has no file to save; values that"],
  ["-o FILE where there are several", ["box", "number=1", "-o", "a"], "say which one with -o note=FILE"],
  ["a field that is no file", ["box", "number=1", "-o", "nte=a"], "nte; its files: note, parts.0.crop, parts.1"],
  ["several -o of which one has no field", ["box", "number=1", "-o", "note=a", "-o", "b"], "each must name a file"],
  ["a folder", ["picture", image, "-o", "."], "-o must be a file, and . is a folder"],
  ["a folder that is not there", ["picture", image, "-o", "no/a.png"], "there is no folder no"],
  ["no name at all", ["picture", image, "-o", ""], "must be FILE or field=FILE"],
])("wrong usage is refused: %s", async (_, args, part) => {
  const { code, message } = await failureOf(here(...args));
  expect(code).toBe("usage");
  expect(message).toContain(part);
});

test("a file is not written to a terminal", async () => {
  const { code, screen } = await store.cliOnTerminal(["predict", "picture", image, "-o", "-"], { cwd: dir.path });
  expect({ code, screen }).toEqual({
    code: 2,
    screen: "sconce: a file is not written to a terminal; give -o the name of a file\n",
  });
});

describe("--demo", () => {
  test("prints output and demo output; logs go to standard error", async () => {
    const { code, stdout, stderr } = await predict("box", "number=4", "--demo");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ output: { seen: { number: 4 } }, demo_output: { twice: 8 } });
    expect(stderr.split("\n").slice(-4)).toEqual(["begun", "preprocessing 4", "predicted 1", ""]);
  });

  test("saves files of output and demo output by the last part of their name", async () => {
    const printed = await here("box", "number=4", "--demo", "-o", "map=map.txt");
    expect(JSON.parse(printed).demo_output.map).toBe("map.txt");
    expect(await textOf("map.txt")).toBe("the map");
  });
});
