/** Request bodies become inputs, for kinds of schemas that no model in test/models has. */
import { describe, expect, test } from "bun:test";
import { readBody } from "../src/http/body-reader.ts";
import { problemOf, problemStatus, problemType } from "../src/http/problem.ts";
import { Uploads } from "../src/http/uploads.ts";
import { InputError, type InputErrorOptions, z } from "../src/index.ts";
import { Bodies } from "../src/pipeline/inputs/body.ts";
import { InputDecoder } from "../src/pipeline/inputs/input-decoder.ts";
import { toArray } from "../src/pipeline/inputs/input-list.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import type { ProblemBody } from "./helpers/client.ts";

/** Reads a request body with a schema. @returns the inputs with the bytes that each takes, or the problem */
async function read(schema: z.ZodType, body: string | Uint8Array<ArrayBuffer>): Promise<unknown> {
  const bodies = new Bodies(new InputDecoder(schema));
  const memory = new MemoryAccount();
  const headers = { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(body)) };
  const request = new Request("http://x/", { method: "POST", headers, body });
  try {
    const { body: given, bytes } = await readBody(request, { maxBytes: 2 ** 24, memory, uploads: new Uploads() });
    const { inputs } = await bodies.decode(given, 10_000, { mustGrow() {} });
    return { inputs: toArray(inputs), bytes };
  } catch (error) {
    // As JSON, like a client reads it.
    const problem = problemOf(error);
    const [type, status] = [problemType(problem.code), problemStatus(problem)];
    return JSON.parse(JSON.stringify({ ...problem, type, status }));
  }
}

const refused = async (schema: z.ZodType, body: unknown): Promise<ProblemBody> =>
  (await read(schema, typeof body === "string" ? body : JSON.stringify(body))) as ProblemBody;

const failedToRead = "the model failed to read this value";

describe("a schema", () => {
  const tree = z.object({
    get child() {
      return tree.optional();
    },
  });

  test("that refers to itself accepts inputs of a thousand levels", async () => {
    const body = `[${'{"child":'.repeat(1000)}{}${"}".repeat(1000)}]`;
    expect(await read(tree, body)).toMatchObject({ bytes: body.length });
  });

  test.each([2001, 10_000])("that refers to itself refuses %d levels", async (levels) => {
    const body = `[${'{"child":'.repeat(levels)}{}${"}".repeat(levels)}]`;
    const problem = await refused(tree, body);
    expect(problem).toMatchObject({ status: 422, detail: "an input is nested too deeply" });
  });

  test("with defaults adds missing values", async () => {
    expect(await read(z.object({ x: z.number().default(3) }), "[{}]")).toMatchObject({ inputs: [{ x: 3 }] });
  });

  test("with nested unions reports the faults of the closest option at any depth", async () => {
    const node: z.ZodType = z.union([
      z.object({ kind: z.literal("and"), children: z.lazy(() => z.array(node)) }),
      z.object({ kind: z.literal("or"), children: z.lazy(() => z.array(node)) }),
    ]);
    const levels = 900;
    let tree: unknown = { kind: "not", children: [] };
    for (let level = 0; level < levels; level++) tree = { kind: "or", children: [tree] };
    const { errors } = await refused(z.object({ node }), [{ node: tree }]);
    expect(errors?.map(({ pointer }) => pointer)).toEqual([`/0/node${"/children/0".repeat(levels)}/kind`]);
  });

  test("with a union reports the faults of the closest option", async () => {
    const schema = z.object({
      shape: z.union([z.object({ radius: z.number() }), z.object({ width: z.number(), height: z.number() })]),
    });
    const problem = await refused(schema, [{ shape: { width: 1 } }]);
    expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(["/0/shape/height"]);
  });

  test.each([
    [true, "expected string or number or null, received boolean"],
    [{}, "expected string or number or null, received object"],
    [[], "expected string or number or null, received array"],
    ["", "Too small: expected string to have >=1 characters"],
  ])("with a union lists the accepted types, unless an option has the given type: %j", async (size, detail) => {
    const schema = z.object({ size: z.union([z.string().min(1), z.union([z.number(), z.null()])]) });
    const problem = await refused(schema, [{ size }]);
    expect(problem.errors).toEqual([{ pointer: "/0/size", detail }]);
  });

  test("counts the characters of a text as JSON Schema does", async () => {
    const schema = z.object({ x: z.string().min(2).max(3) });
    const detail = "Too small: expected string to have >=2 characters";
    expect((await refused(schema, [{ x: "\u{1F600}" }])).errors).toEqual([{ pointer: "/0/x", detail }]);
    const inputs = [{ x: "\u{1F600}\u{1F600}" }, { x: "\u{1F600}".repeat(3) }, { x: "ab" }];
    expect(await read(schema, JSON.stringify(inputs))).toMatchObject({ inputs });
  });

  test.each([
    ["/0", failedToRead, [{ at: [{ when: "1970-01-01" }, { when: "soon" }] }]],
    ["/0", failedToRead, [{ size: 7 }]],
    ["/1", failedToRead, [{}, { size: 1, at: [] }]],
  ])("whose own code throws gives a fault at %s (%s)", async (pointer, detail, body) => {
    const when = z.string().transform((text) => new Date(text).toISOString());
    const size = z.number().refine((value) => {
      if (value > 6) throw new Error("no such size");
      return true;
    });
    const schema = z
      .object({ at: z.array(z.object({ when })).optional(), size: size.optional() })
      .transform((input) => {
        if (input.at !== undefined && input.size !== undefined) throw new TypeError("both at once");
        return input;
      });
    const problem = await refused(schema, body);
    expect(problem).toMatchObject({
      status: 422,
      type: "urn:sconce:problem:inputs_invalid",
      errors: [{ pointer, detail }],
    });
  });

  test("whose code throws an InputError gives its message, at the field that it names", async () => {
    const check = (options: InputErrorOptions) => (): boolean => {
      throw new InputError("it is not wanted", options);
    };
    const detail = "it is not wanted";
    const ofField = z.object({ x: z.number().refine(check({})) });
    expect((await refused(ofField, [{ x: 1 }])).errors).toEqual([{ pointer: "/0", detail }]);
    const ofWhole = z.object({ at: z.array(z.number()) }).refine(check({ field: ["at", 1] }));
    expect((await refused(ofWhole, [{ at: [1, 2] }])).errors).toEqual([{ pointer: "/0/at/1", detail }]);
  });

  test("that is asynchronous is an error of the model, not of the client", async () => {
    const schema = z.object({ x: z.number().transform(async (x) => x) });
    expect(await refused(schema, [{ x: 1 }])).toMatchObject({ status: 500 });
  });

  test("that is loose keeps unknown fields", async () => {
    expect(await read(z.looseObject({ x: z.number() }), '[{"x":1,"y":2}]')).toMatchObject({ inputs: [{ x: 1, y: 2 }] });
  });
});

describe("a body", () => {
  test("has its limit in bytes, not in characters", async () => {
    expect(await read(z.object({ text: z.string() }), '[{"text":"äöü€"}]')).toMatchObject({ bytes: 13 + 9 });
  });

  const inQuotes = (hex: string) => Buffer.from(`5b22${hex}225d`, "hex");

  test.each([
    ["a character that is cut off", "f09f98"],
    ["a surrogate", "eda080"],
    ["an overlong character", "c080"],
    ["a byte of no character", "ff"],
  ])("with %s is not UTF-8", async (_, hex) => {
    expect(await read(z.string(), inQuotes(hex))).toMatchObject({
      status: 400,
      type: "urn:sconce:problem:not_json",
      detail: expect.stringContaining("UTF-8"),
    });
  });

  test("may begin with a byte order mark, and may have any characters", async () => {
    for (const mark of ["", "efbbbf"]) {
      const body = Buffer.concat([Buffer.from(mark, "hex"), inQuotes("efbfbdf09f9880")]);
      expect(await read(z.string(), body)).toMatchObject({ inputs: ["\uFFFD\u{1F600}"], bytes: body.length });
    }
  });
});
