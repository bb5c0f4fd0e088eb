/** Inputs sent as multipart forms, with uploaded files. */
import { describe, expect, test } from "bun:test";
import { z } from "../src/author/z.ts";
import { float32, ndarray } from "../src/index.ts";
import { expectedKinds } from "../src/pipeline/inputs/expected-kinds.ts";
import { inputsOfForm } from "../src/pipeline/inputs/form-body.ts";
import { problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab", "picture"));
const lab = fixture(() => store.serve("lab", { maxBodyBytes: 2 ** 20 }));
const picture = fixture(() => store.serve("picture"));

/** A PNG of one white pixel. */
const png = Uint8Array.fromBase64(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC",
);

/** Parts of a form by name, or `NAME=TEXT&NAME=TEXT`. */
type Parts = string | readonly (readonly [string, string | Blob])[];

function formOf(parts: Parts): FormData {
  const form = new FormData();
  const texts = typeof parts === "string" ? parts.split("&").map((part) => part.split(/=(.*)/s)) : parts;
  for (const [name = "", value = ""] of texts) form.append(name, value);
  return form;
}

const send = (to: TestServer, parts: Parts, path = "/predictions") =>
  to.client.fetch(path, { method: "POST", headers: { Prefer: "wait" }, body: formOf(parts) });

const input = z.strictObject({
  scale: z.number().optional(),
  text: z.string().optional(),
  isOn: z.boolean().optional(),
  box: z.array(z.number()).optional(),
  names: z.array(z.string()).optional(),
  level: ndarray(float32()).optional(),
  series: ndarray(float32("steps")).optional(),
  rows: ndarray(float32("height", "width")).nullable().optional(),
  clips: z.array(ndarray(float32("steps"))).optional(),
  note: z.strictObject({ text: z.string() }).optional(),
  bias: z.number().nullish(),
  either: z.union([z.number(), z.boolean()]).optional(),
  level3: z.literal([1, 3, null]).optional(),
  corners: z.tuple([z.string(), z.number()]).rest(z.boolean()).optional(),
  parts: z.array(z.number()).nullish(),
});

/** The inputs that the server reads from a form. */
async function inputsOf(parts: Parts, schema: z.ZodType = input): Promise<unknown> {
  const request = new Request("http://x/", { method: "POST", body: formOf(parts) });
  const boundary = request.headers.get("content-type")?.split("boundary=")[1]?.replaceAll('"', "") ?? "";
  const body = await inputsOfForm([new Uint8Array(await request.arrayBuffer())], boundary, expectedKinds(schema));
  return JSON.parse(typeof body === "string" ? body : Buffer.concat(body).toString());
}

/** A form as a browser sends it, with a file field for each name that the user left empty. */
async function inputsOfBrowser(texts: readonly (readonly [string, string])[], leftEmpty: readonly string[]) {
  const parts = [
    ...texts.map(([name, text]) => `name="${name}"\r\n\r\n${text}`),
    ...leftEmpty.map((name) => `name="${name}"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n`),
  ];
  const form = parts.map((part) => `--b\r\nContent-Disposition: form-data; ${part}\r\n`).join("");
  const body = await inputsOfForm([new TextEncoder().encode(`${form}--b--\r\n`)], "b", expectedKinds(input));
  return JSON.parse(typeof body === "string" ? body : Buffer.concat(body).toString());
}

test("a file field that the user left empty is absent, also in a list, and if it is the only field", async () => {
  expect(await inputsOfBrowser([["scale", "2"]], ["series", "clips", "clips"])).toEqual([{ scale: 2 }]);
  expect(await inputsOfBrowser([], ["series"])).toEqual([{}]);
});

test("a required file that the user left empty is named as missing", async () => {
  const body = '--b\r\nContent-Disposition: form-data; name="image"; filename=""\r\n\r\n\r\n--b--\r\n';
  const headers = { "Content-Type": "multipart/form-data; boundary=b" };
  const refused = await problemOf(await picture.client.fetch("/predictions", { method: "POST", headers, body }));
  expect(refused).toMatchObject({
    status: 422,
    errors: [{ pointer: "/0/image", detail: expect.stringContaining("it is missing") }],
  });
});

test("an input that is no object is the only part, of any name", async () => {
  expect(await inputsOf("any=2", z.number())).toEqual([2]);
  expect(await inputsOf("any=2&any=3", z.array(z.number()))).toEqual([[2, 3]]);
  expect(await inputsOf([["any", new Blob(["abc"])]], z.string())).toEqual([
    "data:application/octet-stream;base64,YWJj",
  ]);
});

describe("a form is read as", () => {
  test.each<[string, Parts, unknown]>([
    ["one input, its texts as the schema has them", "scale=2&text=2&isOn=true", [{ scale: 2, text: "2", isOn: true }]],
    ["lists, of one part or several", "box=1&box=2&names=7", [{ box: [1, 2], names: ["7"] }]],
    ["a list as JSON", [["box", "[1, 2]"]], [{ box: [1, 2] }]],
    [
      "what may be null, or one of several kinds",
      "bias=2&either=true&level3=3&parts=null",
      [{ bias: 2, either: true, level3: 3, parts: null }],
    ],
    [
      "tuples, each element of which is what the schema has at its place",
      "corners=1&corners=2&corners=true",
      [{ corners: ["1", 2, true] }],
    ],
    ["an object as JSON", [["note", '{"text": "a"}']], [{ note: { text: "a" } }]],
    [
      "fields of any name, which are only data",
      "__proto__=1&constructor=2&a.b=3&names[]=4",
      [JSON.parse('{"__proto__": "1", "constructor": "2", "a.b": "3", "names": ["4"]}')],
    ],
    ["files as data URLs", [["text", new Blob(["abc"])]], [{ text: "data:application/octet-stream;base64,YWJj" }]],
    [
      "arrays of several parts, which are their elements or their rows",
      "series=1&series=2&rows=[1, 2]&rows=[3, 4]",
      [
        {
          series: [1, 2],
          rows: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    ],
    ["arrays of one part, a number or an element", "level=5&series=5", [{ level: 5, series: [5] }]],
    [
      "arrays as JSON, as texts and as a file",
      [
        ["series", " [1, 2]"],
        ["rows", "[[1, 2], [3, 4]]"],
        ["clips", new Blob(["[[1], [2, 3]]"], { type: "application/json" })],
      ],
      [
        {
          series: [1, 2],
          rows: [
            [1, 2],
            [3, 4],
          ],
          clips: [[1], [2, 3]],
        },
      ],
    ],
    [
      "arrays as bytes, as a data URI and as a file",
      [
        ["series", "data:;base64,AAAAAA=="],
        ["rows", new Blob(["abcd"])],
        ["clips", "DATA:;base64,AAAAAA=="],
      ],
      [
        {
          series: "data:;base64,AAAAAA==",
          rows: "data:application/octet-stream;base64,YWJjZA==",
          clips: ["DATA:;base64,AAAAAA=="],
        },
      ],
    ],
  ])("%s", async (_, parts, inputs) => {
    expect(await inputsOf(parts)).toEqual(inputs);
  });

  const part = async (head: string, name = "text", content = "abc") => {
    const text = `--b\r\nContent-Disposition: form-data; name="${name}"${head}\r\n\r\n${content}\r\n--b--\r\n`;
    const body = await inputsOfForm([new TextEncoder().encode(text)], "b", expectedKinds(input));
    return JSON.parse(String(body))[0][name];
  };

  test.each([
    ['; filename="a.png"\r\ncontent-type: TEXT/Plain; Charset=utf-8; x="1"; y="a, b"', "text/plain;Charset=utf-8;x=1"],
    ['; filename="; name=other"\r\nContent-Type: audio/webm', "audio/webm"],
    ["; filename=a.png", "application/octet-stream"],
    ['; filename=a\r\nContent-Type: a/b","x":"', "application/octet-stream"],
    ["\r\nContent-Type: image/png", "image/png"],
  ])("files with their declared media types (%#)", async (head, mediaType) => {
    expect(await part(head)).toBe(`data:${mediaType};base64,YWJj`);
  });

  test.each(['; filename="blob"', ""])("JSON with its type, if it is not text (%p)", async (filename) => {
    const head = `${filename}\r\nContent-Type: application/json`;
    expect(await part(head, "note", '{"text": "a"}')).toEqual({ text: "a" });
    expect(await part(head, "box", "[1, 2]")).toEqual([1, 2]);
    expect(await part(head, "series", "[1, 2]")).toEqual([1, 2]);
  });

  test("unchanged bytes for a large file", async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(60_000));
    const file = new Blob(Array.from({ length: 20 }, () => bytes));
    const [first] = (await inputsOf([["text", file]])) as { text: string }[];
    expect(first?.text.split(",")[1]).toBe(Buffer.concat(Array.from({ length: 20 }, () => bytes)).toString("base64"));
  });
});

test("a prediction can have a file and other fields", async () => {
  const file = new File([png], "white.png", { type: "image/png" });
  expect(await (await send(picture, [["image", file]])).json()).toMatchObject({ outputs: [{ mean: [255, 255, 255] }] });
  expect(await (await send(lab, [["x", "3"]])).json()).toMatchObject({ outputs: [{ y: 7 }] });
});

test("faults have the same pointers and messages as in JSON", async () => {
  const { errors } = await problemOf(await send(lab, "x=three&y=1"));
  expect(errors?.map(({ pointer }) => pointer).sort()).toEqual(["/0/x", "/0/y"]);
});

test.each<[string, Parts, string]>([
  ["a part without a name", [["", "1"]], ""],
  ["no parts", [], "/0/x"],
])("%s is a 422", async (_, parts, pointer) => {
  expect(await problemOf(await send(lab, parts))).toMatchObject({ status: 422, errors: [{ pointer }] });
});

test("too many parts are refused with 422, and too many bytes with 413", async () => {
  const parts = (count: number) => Array.from({ length: count }, (_, i) => [`f${i}`, "1"] as const);
  const headers = { "Content-Type": "multipart/form-data; boundary=b" };
  const raw = (count: number) =>
    `${"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n".repeat(count)}--b--\r\n`;
  const many = await lab.client.fetch("/predictions", { method: "POST", headers, body: raw(10_001) });
  expect(await problemOf(many)).toMatchObject({ status: 422, detail: "a form may have at most 10000 parts" });
  expect((await problemOf(await send(lab, parts(2000)))).errors).toHaveLength(1000);
  expect(await problemOf(await send(lab, [["x", new Blob([new Uint8Array(2 ** 20)])]]))).toMatchObject({ status: 413 });
});

test("invalid or truncated forms are refused with 400", async () => {
  const headers = { "Content-Type": "multipart/form-data; boundary=b" };
  const long = `--b\r\nX: ${"y".repeat(20_000)}\r\n\r\n1\r\n--b--`;
  for (const body of ["", "[1]", long, '--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1']) {
    const response = await lab.client.fetch("/predictions", { method: "POST", headers, body });
    expect(await problemOf(response)).toMatchObject({ status: 400 });
  }
});
