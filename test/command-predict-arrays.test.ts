/** `predict`: array fields as lists, data URIs and files. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { predict as command } from "../src/commands/predict.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

setDefaultTimeout(120_000);

let dir: TempDir;
let store: TestStore;

const fields = `z.object({
    flat: ndarray(float32("n")),
    wide: ndarray(float64("a", "b")).optional(),
    counts: ndarray(int64("n")).optional(),
    mask: ndarray(bool(2)).optional(),
    one: ndarray(float32()).optional(),
    raw: file().optional(),
  })`;

beforeAll(async () => {
  dir = await tempDir();
  await using source = await tempDir();
  // What it is given comes back, so that every test sees what became of its fields.
  const mirror = modelText({
    name: '"mirror"',
    input: fields,
    output: fields,
    example: "{ flat: [1] }",
    preprocess: "() => ({ x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) })",
    postprocess: "(_, { input }) => input",
  }).replace("import { ", "import { bool, file, float64, ndarray, ");
  store = await storeWith(await writeModel(source, mirror, "mirror"));
  await Bun.write(dir.join("raw.bin"), Float32Array.of(1, 2, 3));
  await Bun.write(dir.join("lists.json"), "[4, 5]");
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const here = (...args: string[]) => commandHere(command, ["mirror", ...args], { home: store.home, cwd: dir.path });
const seen = async (...args: string[]) => JSON.parse(await here(...args));

describe("an array is", () => {
  test.each([
    ["a JSON list", ["flat=[1, 2, 3]"], [1, 2, 3]],
    ["its elements, one after the other", ["flat=1", "flat=2.5"], [1, 2.5]],
    ["one element", ["flat=7"], [7]],
    ["a data URI", ["flat=data:application/octet-stream;base64,AACAPwAAAEA="], [1, 2]],
    ["a path to its bytes", ["flat=raw.bin"], [1, 2, 3]],
    ["a path to its bytes after @", ["flat=@raw.bin"], [1, 2, 3]],
    ["a path to its lists", ["flat=@lists.json"], [4, 5]],
    ["a path in --json", ["--json", '{"flat": "raw.bin"}'], [1, 2, 3]],
  ])("%s", async (_, args, flat) => {
    expect(await seen(...args)).toEqual({ flat });
  });

  test("true and false as elements, and one number without dimensions", async () => {
    expect(await seen("flat=1", "mask=true", "mask=false", "one=2.5")).toMatchObject({ mask: [true, false], one: 2.5 });
  });
});

test("usage says what arrays take", async () => {
  const { code, message } = await failureOf(here("one=1"));
  expect({ code, message }).toEqual({
    code: "usage",
    message:
      "missing field flat; mirror takes flat=<JSON array, file or data URI> [wide=<JSON array, file or data URI>] [counts=<JSON array, file or data URI>] [mask=<JSON array, file or data URI>] [one=<number, file or data URI>] [raw=<file or URL>]",
  });
});

test("JSON that is broken is refused with the file's name", async () => {
  await Bun.write(dir.join("broken.json"), "[1,");
  const { code, message } = await failureOf(here("flat=@broken.json"));
  expect(code).toBe("usage");
  expect(message).toStartWith('flat can\'t be read from "broken.json": ');
});
