/** Invalid requests: each is refused with an error code and a JSON pointer for every fault, and changes nothing. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type PredictionBody, type ProblemBody, problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { type Hold, hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { sendRaw } from "./helpers/wire.ts";

let gate: Hold;
let neighbour: PredictionBody;

const store = fixture(() => storeWith("lab"));
const server = fixture(() => store.serve("lab", { maxBodyBytes: 4 * 2 ** 20, maxInputs: 60 }));
const client = fixture(() => server.client);

/** During every case a prediction runs, and another follows: both must succeed. */
beforeEach(async () => {
  gate = hold();
  neighbour = await client.create([{ x: 1, before: gate.url("a") }]);
  await gate.arrived("a");
});

afterEach(async () => {
  gate.release("a");
  expect((await client.end(neighbour.prediction_id)).outputs?.[0]?.y).toBe(3);
  expect((await client.predict([{ x: 2 }])).outputs?.[0]?.y).toBe(5);
  expect(await client.metric("sconce_predictions_active")).toBe(0);
  await gate[Symbol.asyncDispose]();
});

/** The problem with which `/predictions`, and `/demo` as well, refuse a body. */
async function refused(body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<ProblemBody> {
  const [problem, other] = await Promise.all([client, client.demos].map((each) => each.refused(body, headers)));
  if (problem === undefined) throw new Error("no path was asked");
  expect(other).toEqual(problem);
  return problem;
}

const pointersOf = ({ errors = [] }: { errors?: readonly { pointer: string }[] }) =>
  errors.map(({ pointer }) => pointer).sort();

describe("a body that is not JSON", () => {
  test.each([
    ["nothing", ""],
    ["a word", "x=1"],
    ["half a list", '[{"x": 1}'],
    ["half an input", '[{"x": 1, "note": {"text": "a'],
    ["a line break within a string", '[{"x": 1, "note": {"text": "a\nb"}}]'],
    ["two lists", '[{"x": 1}][{"x": 1}]'],
    ["a trailing comma", '[{"x": 1},]'],
    ["single quotes", "[{'x': 1}]"],
    ["NaN", '[{"x": NaN}]'],
    ["Infinity", '[{"x": Infinity}]'],
    ["minus Infinity", '[{"x": -Infinity}]'],
    ["brackets that never close", "[".repeat(1_000_000)],
  ])("(%s) is refused with 400", async (_, body) => {
    const problem = await refused(body);
    expect(problem).toMatchObject({ status: 400, type: "urn:sconce:problem:not_json", title: "Bad Request" });
    if (body !== "") expect(problem.detail).toStartWith("the body is not JSON: ");
    expect(problem.detail.length).toBeLessThan(200);
  });

  test("(not UTF-8) is refused with 400", async () => {
    const body = Buffer.from('[{"x": 1, "note": {"text": "\xff\xfe"}}]', "latin1");
    for (const sent of [body, new Blob([body]).stream()])
      expect((await client.refused(sent)).type).toBe("urn:sconce:problem:not_json");
  });
});

describe("a body of another media type", () => {
  test.each(["application/xml", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data"])(
    "(%s) is refused with 415",
    async (mediaType) => {
      const problem = await refused([{ x: 1 }], { "Content-Type": mediaType });
      expect(problem).toMatchObject({ status: 415, type: "urn:sconce:problem:unsupported_media_type" });
      expect(problem.detail).toContain("application/json");
    },
  );

  test("(that of curl -d) gets the header to add", async () => {
    const { detail } = await refused([{ x: 1 }], { "Content-Type": "application/x-www-form-urlencoded" });
    expect(detail).toEndWith("; with curl, add -H 'Content-Type: application/json'");
  });

  test("(no Content-Type, or the text/plain that fetch sets for a string) is read as JSON", async () => {
    const bytes =
      'POST /predictions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 9\r\n\r\n[{"x":1}]';
    expect(await sendRaw(server.url, bytes)).toStartWith("HTTP/1.1 200 ");
    // The fetch standard sets this type for a string body, in browsers and in Node.js.
    const headers = { "Content-Type": "text/plain;charset=UTF-8" };
    expect((await client.post([{ x: 1 }], headers)).status).toBe(200);
    const word = await client.post("x=1", headers);
    expect(await problemOf(word)).toMatchObject({ status: 400, type: "urn:sconce:problem:not_json" });
  });

  test.each([
    ["a form without the boundary that its type names", { "Content-Type": "multipart/form-data; boundary=x" }, 400],
    ["two compressions", { "Content-Encoding": "gzip, br" }, 415],
  ])("(%s) is refused", async (_, headers, status) => {
    expect(await refused([{ x: 1 }], headers)).toMatchObject({ status });
  });

  test("(unknown compression) is refused with 415 and the supported encodings", async () => {
    const response = await client.post([{ x: 1 }], { "Content-Encoding": "compress" });
    expect(response.headers.get("accept-encoding")).toBe("gzip, deflate, br, zstd, identity");
    expect(await problemOf(response)).toMatchObject({ status: 415 });
  });
});

describe("inputs that do not fit the schema are refused with 422 that names", () => {
  test.each([
    ["a wrong type", [{ x: "1" }], ["/0/x"]],
    ["null", [{ x: null }], ["/0/x"]],
    ["a missing field", [{ steps: 1 }], ["/0/x"]],
    ["an unknown field", [{ x: 1, y: 2 }], ["/0/y"]],
    ["an input that is no object", [1, [], "x", null], ["/0", "/1", "/2", "/3"]],
    ["a word that is not one of those allowed", [{ x: 1, fail: "sometimes" }], ["/0/fail"]],
    ["a number that is not whole", [{ x: 1, steps: 1.5 }], ["/0/steps"]],
    ["a text that is no URL", [{ x: 1, before: "later" }], ["/0/before"]],
    [
      "wrong, missing and unknown fields at depth",
      [{ x: 1 }, { x: 1, note: { mark: 1, marks: [{ at: 1 }, { at: "here", of: 2 }, {}] } }],
      ["/1/note/mark", "/1/note/marks/1/at", "/1/note/marks/1/of", "/1/note/marks/2/at", "/1/note/text"],
    ],
    ["fields whose names need escaping", [{ x: 1, "a/b": 1, "c~d": 2 }], ["/0/a~1b", "/0/c~0d"]],
    ["every fault of every input", [{ x: "1" }, { x: 1 }, {}, { x: 1, z: 1 }], ["/0/x", "/2/x", "/3/z"]],
  ])("%s", async (_, inputs, pointers) => {
    const problem = await refused(inputs);
    expect(problem).toMatchObject({ status: 422, type: "urn:sconce:problem:inputs_invalid" });
    expect(pointersOf(problem)).toEqual(pointers);
    for (const { detail } of problem.errors ?? []) expect(detail).not.toBe("");
  });

  test("a number beyond the range (1e400)", async () => {
    expect(pointersOf(await refused('[{"x": 1e400}]'))).toEqual(["/0/x"]);
  });

  test("a name with half a character", async () => {
    expect(pointersOf(await refused('[{"x": 1, "\\ud800": 1}]'))).toEqual(["/0/\ud800"]);
  });

  test("fields with names of inherited object members", async () => {
    const problem = await refused('[{"x": 1, "__proto__": {"x": 1}, "constructor": 1, "toString": 2}]');
    expect(pointersOf(problem)).toEqual(["/0/__proto__", "/0/constructor", "/0/toString"]);
  });

  test("the expected and the received value", async () => {
    const problem = await refused([{ x: "1" }]);
    expect(problem.errors).toEqual([{ pointer: "/0/x", detail: "expected number, received string" }]);
    expect(problem.detail).toBe("/0/x: expected number, received string");
  });

  test("at most the first thousand faults", async () => {
    const fields = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`field${i}`, i]));
    const problem = await refused([{ x: 1, ...fields }]);
    expect(problem.errors?.length).toBe(1000);
    expect(problem.errors?.[0]).toEqual({ pointer: "/0/field0", detail: "is not a field of this input" });
    expect(problem.detail).toStartWith("more than 1000 faults");
  });
});

test.each([
  ["an empty one", [], "at least one input"],
  ["one that is too long", Array.from({ length: 61 }, () => ({ x: 1 })), "at most 60 inputs, received 61"],
  ["an input without a list", { x: 1 }, "put a single input in [ ]"],
  ["a number", 1, "expected a list of inputs, received a number"],
  ["null", null, "expected a list of inputs, received null"],
])("an unacceptable list is refused with 422 (%s)", async (_, body, detail) => {
  const problem = await refused(body);
  expect(problem.status).toBe(422);
  expect(pointersOf(problem)).toEqual([""]);
  expect(problem.detail).toContain(detail);
});

test.each([1000, 40_000])("nesting of %d levels is refused with 422", async (levels) => {
  expect(pointersOf(await refused("[".repeat(levels) + "]".repeat(levels)))).toEqual(["/0"]);
  const objects = `[{"x": ${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}]`;
  expect(pointersOf(await refused(objects))).toEqual(["/0/x"]);
  const unknown = `[{"x": 1, "a": ${"[".repeat(levels)}${"]".repeat(levels)}}]`;
  expect(pointersOf(await refused(unknown))).toEqual(["/0/a"]);
});

describe("a body that is too large is refused with 413", () => {
  const tooLarge = `[{"x": 1, "note": {"text": "${"n".repeat(4 * 2 ** 20)}"}}]`;

  test("because of its Content-Length, before it is read", async () => {
    const head = "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const bytes = `${head}Connection: close\r\nContent-Length: 9999999999\r\n\r\n[`;
    expect(await sendRaw(server.url, bytes)).toStartWith("HTTP/1.1 413 ");
  });

  test("and the message has the limit", async () => {
    const problem = await refused(tooLarge);
    expect(problem).toMatchObject({ status: 413, type: "urn:sconce:problem:body_too_large" });
    expect(problem.detail).toContain(String(4 * 2 ** 20));
  });

  test("if its chunks exceed the limit", async () => {
    expect((await client.refused(new Blob([tooLarge]).stream())).status).toBe(413);
  });
});

describe("a truncated body", () => {
  const head = "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

  test.each([
    ["of its Content-Length", `${head}Content-Length: 100\r\n\r\n[{"x": 1`],
    ["of a chunk", `${head}Transfer-Encoding: chunked\r\n\r\n9\r\n[{"x": 1`],
    ["of its chunks", `${head}Transfer-Encoding: chunked\r\n\r\n9\r\n[{"x": 1}\r\n`],
  ])("(%s) creates no prediction, and is no server error", async (_, bytes) => {
    const before = await client.metric('sconce_requests_rejected_total{code="400",cause="incomplete"}');
    await sendRaw(server.url, bytes, { end: true });
    await until(
      async () => (await client.metric('sconce_requests_rejected_total{code="400",cause="incomplete"}')) !== before,
    );
    expect(await client.metric("sconce_predictions_active")).toBe(1);
    expect(await client.metric('sconce_requests_rejected_total{code="500",cause="internal"}')).toBe(0);
  });
});
