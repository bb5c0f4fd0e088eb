/** `sconce predict` with array fields: lists, data URIs and files, among them NumPy files. */
import { beforeAll, describe, expect, test } from "bun:test";
import { predict as command } from "../src/cli/commands/predict.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { type NpyParts, npy } from "./helpers/npy.ts";
import { storeWith } from "./helpers/server.ts";

const fields = `z.object({
    flat: ndarray(float32("n")),
    wide: ndarray(float64("a", "b")).optional(),
    counts: ndarray(int64("n")).optional(),
    mask: ndarray(bool(2)).optional(),
    one: ndarray(float32()).optional(),
    raw: file().optional(),
  })`;

const dir = fixture(tempDir);
const store = fixture(async () => {
  await using source = await tempDir();
  // A model that returns its input, which shows how the fields were read.
  const mirror = modelText({
    name: '"mirror"',
    input: fields,
    output: fields,
    example: "{ flat: [1] }",
    preprocess: "() => ({ x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) })",
    postprocess: "(_, { input }) => input",
  }).replace("import { ", "import { bool, file, float64, ndarray, ");
  return await storeWith(await writeModel(source, mirror, "mirror"));
});
beforeAll(async () => {
  await Bun.write(dir.join("raw.bin"), Float32Array.of(1, 2, 3));
  await Bun.write(dir.join("lists.json"), "[4, 5]");
});

const here = (...args: string[]) => commandHere(command, ["mirror", ...args], { home: store.home, cwd: dir.path });
const seen = async (...args: string[]) => JSON.parse(await here(...args));

describe("an array can be", () => {
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

  test("repeated true and false, or a single number if the array has no dimensions", async () => {
    expect(await seen("flat=1", "mask=true", "mask=false", "one=2.5")).toMatchObject({ mask: [true, false], one: 2.5 });
  });
});

test("the usage explains array values", async () => {
  const { code, message } = await failureOf(here("one=1"));
  expect({ code, message }).toEqual({
    code: "usage",
    message:
      "missing field flat; mirror takes flat=<JSON array, file or data URI> [wide=<JSON array, file or data URI>] [counts=<JSON array, file or data URI>] [mask=<JSON array, file or data URI>] [one=<number, file or data URI>] [raw=<file or URL>]",
  });
});

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const doubles = (...values: number[]) => new Uint8Array(Float64Array.from(values).buffer);

describe("a NumPy file", () => {
  test("is detected by content, whatever its extension", async () => {
    await Bun.write(dir.join("array.data"), npy({ descr: "'<f4'", shape: "(2,)", data: floats(1, 2) }));
    expect(await seen("flat=array.data")).toEqual({ flat: [1, 2] });
  });

  test("stays a file if the field is a file field", async () => {
    const bytes = npy({ descr: "'<f4'", shape: "(2,)", data: floats(1, 2) });
    await Bun.write(dir.join("file.npy"), bytes);
    const { raw } = await seen("flat=1", "raw=@file.npy");
    expect(raw).toEndWith(`;base64,${bytes.toBase64()}`);
  });

  test.each<[what: string, parts: NpyParts, field: string, part: string]>([
    [
      "of numbers that its field does not take",
      { descr: "'<f8'", shape: "(2,)", data: doubles(1, 2.5) },
      "counts",
      "counts.1: expected a whole number",
    ],
    [
      "of a type that no field has",
      { descr: "'<u2'", shape: "(2,)", data: new Uint8Array(4) },
      "flat",
      "flat can't be read from \"bad.npy\": it holds elements of NumPy's type <u2; save it as one of <f2, <f4,",
    ],
    ["of records", { descr: "[('a', '<f4')]", shape: "(1,)", data: floats(1) }, "flat", "it holds records; expected"],
    ["that is big-endian", { descr: "'>f4'", shape: "(2,)", data: floats(1, 2) }, "flat", 'save array.astype("<f4")'],
    ["that is cut off", { descr: "'<f4'", shape: "(3,)", data: floats(1, 2) }, "flat", "it has 8 bytes of elements"],
    [
      "of so many empty rows that their lists fill the memory",
      { descr: "'<f8'", shape: "(4000000000, 0)", data: new Uint8Array(0) },
      "wide",
      "it has 0 elements in 4000000001 lists; save it in another shape than (4000000000, 0)",
    ],
    [
      "of more dimensions than there are in NumPy",
      { descr: "'<f4'", shape: `(${"1, ".repeat(100)})`, data: floats(1) },
      "wide",
      "it has 100 dimensions; NumPy has at most 64",
    ],
    ["of other dimensions", { descr: "'<f4'", shape: "(1, 2)", data: floats(1, 2) }, "flat", "flat.0: expected a numb"],
  ])("%s is refused", async (_, parts, field, part) => {
    await Bun.write(dir.join("bad.npy"), npy(parts));
    const { code, message } = await failureOf(here("--example", `${field}=@bad.npy`));
    expect(code).toBe("usage");
    expect(message).toContain(part);
  });

  test("whose header is damaged is refused", async () => {
    const whole = npy({ descr: "'<f4'", shape: "(2,)", data: floats(1, 2) });
    for (const [length, part] of [
      [8, "it is cut off"],
      [30, "its header is not valid"],
    ] as const) {
      await Bun.write(dir.join("cut.npy"), whole.subarray(0, length));
      expect((await failureOf(here("flat=@cut.npy"))).message).toEndWith(part);
    }
  });
});

test("invalid JSON is refused with the file's name", async () => {
  await Bun.write(dir.join("broken.json"), "[1,");
  const { code, message } = await failureOf(here("flat=@broken.json"));
  expect(code).toBe("usage");
  expect(message).toStartWith('flat can\'t be read from "broken.json": ');
});
