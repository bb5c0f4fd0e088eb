/** `sconce predict` runs one prediction without a server: how it reads values, and what it refuses. */
import { beforeAll, expect, test } from "bun:test";
import { build } from "../src/cli/commands/build.ts";
import { predict as command } from "../src/cli/commands/predict.ts";
import { boxModel } from "./helpers/box-model.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => storeWith("lab", "parts", "picture", await writeModel(dir, boxModel)));
beforeAll(async () => {
  await Bun.write(dir.join("seven.txt"), "7\n");
  await Bun.write(dir.join("song.wav"), "la la");
  await Bun.write(
    dir.join("input.json"),
    '{"number": 1, "files": ["song.wav"], "nested": {"at": [1], "file": "song.wav"}}',
  );
});

const predict = (...args: string[]) => store.cli(["predict", ...args], { cwd: dir.path });
const here = (...args: string[]) => commandHere(command, args, { home: store.home, cwd: dir.path });

/** Runs a prediction with these arguments. @returns the input that the model received */
async function seen(...fields: string[]): Promise<unknown> {
  return JSON.parse(await here("box", ...fields)).seen;
}

test("prints only the output, as one line of JSON", async () => {
  expect(await predict("lab", "x=1.5")).toEqual({ code: 0, stdout: '{"y":4,"together":1}\n', stderr: "" });
});

test("prints the parts of an output to standard error as they come, and the whole output to standard output", async () => {
  const objects = await predict("parts", "x=1", 'words=["one","two"]', "draw=true");
  expect(objects).toMatchObject({ code: 0, stdout: '{"y":3,"text":"one two"}\n' });
  expect(
    objects.stderr
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  ).toEqual(["one", "two"].map((text) => ({ text, picture: expect.stringMatching(/^data:image\/png;base64,/) })));
  const teller = modelText({
    name: '"teller"',
    output: "z.string()",
    part: "z.string()",
    postprocess: `async function* () { for (const word of ["Once ", "upon"]) yield word; return "Once upon"; }`,
  });
  await commandHere(build, [await writeModel(dir, teller, "teller")], store);
  expect(await predict("teller", "x=1")).toEqual({ code: 0, stdout: '"Once upon"\n', stderr: "Once upon\n" });
});

test("reads values by field type: numbers, true and false, JSON, plain text", async () => {
  const fields = [
    "number=-2.5e1",
    "whole=3",
    "flag=true",
    "text=12",
    "maybe=null",
    "mode=slow",
    "level=1.5",
    "list=[1, 2]",
  ];
  expect(await seen(...fields, 'nested={"at": [4]}', "any=[true]")).toEqual({
    ...{ number: -25, whole: 3, flag: true, text: "12", maybe: null, mode: "slow", level: 1.5, list: [1, 2] },
    ...{ nested: { at: [4] }, any: [true] },
  });
});

test("reads a text as it is even if the field allows null; only the text null becomes null", async () => {
  expect(await seen("number=1", 'remark="12"')).toMatchObject({ remark: '"12"' });
  expect(await seen("number=1", "remark=null")).toMatchObject({ remark: null });
});

test("keeps the whole text after the first =, even if empty", async () => {
  expect(await seen("number=1", "text=a=b = c", "any=")).toMatchObject({ text: "a=b = c", any: "" });
});

test("reads a list from repeated fields", async () => {
  expect(await seen("number=1", "list=1", "list=2")).toMatchObject({ list: [1, 2] });
});

test("reads a value from a file with field=@FILE", async () => {
  expect(await seen("number=@seven.txt", "text=@seven.txt")).toMatchObject({ number: 7, text: "7\n" });
});

test("reads files for file fields: paths with and without @, in lists, and data URIs", async () => {
  const song = "audio/wav: la la";
  expect(await seen("number=1", "file=song.wav", "files=@song.wav", "files=data:text/plain,x")).toMatchObject({
    file: song,
    files: [song, "text/plain: x"],
  });
});

test("fetches URLs, also from private addresses", async () => {
  using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response("far", { headers: { "Content-Type": "text/csv" } }),
  });
  expect(await seen("number=1", `file=${server.url}a.csv`)).toMatchObject({ file: "text/csv: far" });
});

test("--json takes a whole input as JSON; paths in it are read, and field=value arguments replace its fields", async () => {
  const song = "audio/wav: la la";
  expect(await seen("--json", "@input.json", "number=2")).toEqual({
    number: 2,
    files: [song],
    nested: { at: [1], file: song },
  });
  expect(await seen('--json={"number": 3}')).toEqual({ number: 3 });
});

test("--json - reads the input from standard input", async () => {
  const { stdout } = await store.cli(["predict", "lab", "--json", "-"], { input: '{"x": 2}' });
  expect(JSON.parse(stdout)).toEqual({ y: 5, together: 1 });
});

test("--example takes the model's example; field=value arguments replace its fields", async () => {
  expect(await seen("--example", "number=8")).toEqual({ number: 8, text: "the example" });
});

test("without a model's name runs the most recent build", async () => {
  await using own = await storeWith("lab");
  expect((await own.cliHere(["predict", "x=1"])).stdout).toBe('{"y":3,"together":1}\n');
});

test("reads fields that look like options after --", async () => {
  expect(await predict("--", "lab", "x=0")).toMatchObject({ code: 0, stdout: '{"y":1,"together":1}\n' });
});

test("writes console output of the model's code to standard error", async () => {
  const { stdout, stderr } = await predict("box", "number=1");
  expect(stdout).toMatch(/^\{.*\}\n$/);
  expect(stderr).toContain("preprocessing 1\n");
});

test("formats the output on a terminal, with lists of numbers on one line", async () => {
  await Bun.write(dir.join("white.png"), Bun.file(`${modelFolder("picture")}/white.png`));
  const { code, screen } = await store.cliOnTerminal(["predict", "picture", "image=white.png"], { cwd: dir.path });
  expect(code).toBe(0);
  expect(screen).toStartWith('{\n  "mean": [255, 255, 255],\n  "swatch": "data:image/png;base64,');
});

test.each([
  ["an unknown field", ["box", "numbr=1"], "box has no field numbr; did you mean number?"],
  ["an unknown field of --json", ["lab", "--json", '{"x": 1, "z": 2}'], "lab has no field z; did you mean x?"],
  ["a missing field", ["lab", "steps=1"], "missing field x; lab takes x=<number> [steps=<whole number>]"],
  ["no field at all", ["picture"], "missing field image; picture takes image=<file or URL>"],
  ["a wrong type", ["lab", "x=five"], 'x must be a number, not "five"'],
  ["a wrong type of an element", ["box", "number=1", "list=a"], 'list must be a number, not "a"'],
  ["a value twice", ["lab", "x=1", "x=2"], "field x is given 2 times; it takes one value"],
  ["a value that the schema refuses", ["box", "number=1", "whole=-1"], "whole: Too small"],
  ["a value that is none of those listed", ["box", "number=1", "mode=quick"], "mode: Invalid option"],
  ["a value that no option of a union takes", ["box", "number=1", "level=high"], 'expected number or "auto"'],
  ["a file that is not there", ["picture", "image=no.png"], 'from "no.png": there is no such file'],
  ["a folder for a file", ["picture", "image=."], 'image can\'t be read from ".": it is a folder'],
  ["a value file that is not there", ["lab", "x=@no.txt"], 'x can\'t be read from "no.txt": there is no such file'],
  ["a scheme that is not taken", ["picture", "image=ftp://a/b.png"], "the scheme ftp is not accepted"],
  ["an argument that is no field", ["lab", "x=1", "five"], '"five" is not field=value'],
  ["--json that is not JSON", ["lab", "--json", "{x"], '--json must be JSON, "@" and a file, or "-"'],
  ["--json that is a list", ["lab", "--json", '[{"x": 1}]'], "an object with the fields of one input, not a list"],
  ["--json with --example", ["box", "--json", "{}", "--example"], "--json and --example are both a whole input"],
])("is refused as wrong usage: %s", async (_, args, part) => {
  const { code, message } = await failureOf(here(...args));
  expect(code).toBe("usage");
  expect(message).toContain(part);
});

test.each([
  ["a model that is not there", ["lob", "x=1"], "model_not_found"],
  ["what the model's code throws", ["lab", "x=1", "fail=preprocess"], "item_failed"],
  ["an output that is not the declared one", ["lab", "x=1", "fail=output"], "output_invalid"],
  ["a file that is no image", ["picture", "image=song.wav"], "file_invalid"],
  ["a forward pass that throws", ["lab", "x=1", "steps=-1"], "run_failed"],
])("fails: %s", async (_, args, code) => {
  expect(await failureOf(here(...args))).toMatchObject({ code });
});

test("every option has a variable; the variable of --json is SCONCE_INPUT", async () => {
  const { stdout } = await store.cliHere(["predict", "lab"], {
    env: { SCONCE_INPUT: '{"x": 4}', SCONCE_JSON: "true" },
  });
  expect(stdout).toBe('{"y":9,"together":1}\n');
});
