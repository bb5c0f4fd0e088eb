/** Large bodies are parsed part by part: the inputs are the same, and other requests do not wait. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SconceError } from "../../src/base/errors.ts";
import { MAX_COST } from "../../src/base/json-text.ts";
import { problemOf as problemFor } from "../../src/http/problem.ts";
import { z } from "../../src/index.ts";
import { Bodies } from "../../src/pipeline/inputs/body.ts";
import { InputDecoder } from "../../src/pipeline/inputs/input-decoder.ts";
import { toArray } from "../../src/pipeline/inputs/input-list.ts";
import { checkParts, LazyInputs } from "../../src/pipeline/inputs/large-body.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { loopTurns } from "../helpers/loop-turns.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";
import { storeWith } from "../helpers/server.ts";

const anything = new InputDecoder(z.unknown());
const MAX_INPUTS = 50;

const outcomeOf = (read: () => unknown) => {
  try {
    return { value: read() };
  } catch (error) {
    if (error instanceof SconceError) return { problem: problemFor(error) };
    throw error;
  }
};

/** Checks a body to its end. @returns its parts */
function partsOf(...body: Parameters<typeof checkParts>) {
  const checking = checkParts(...body);
  for (;;) {
    const { done, value } = checking.next();
    if (done === true) return value.parts;
  }
}

/**
 * Reads a body in parts of 8 bytes, as large bodies are read in larger parts.
 */
function readInParts(body: string, decoder: InputDecoder): unknown {
  const bytes = new TextEncoder().encode(body);
  return toArray(new LazyInputs(bytes, partsOf(bytes, decoder, { maxInputs: MAX_INPUTS, partBytes: 8 }), decoder));
}

const inOne = (body: string, decoder: InputDecoder) => decoder.body(body, MAX_INPUTS);

const space = fc.stringMatching(/^[ \t\n\r]{0,3}$/);
/** Random JSON lists, with random white space. */
const listText = fc
  .tuple(fc.array(fc.jsonValue({ maxDepth: 4 }), { maxLength: 60 }), space, space, fc.constantFrom(undefined, 1, "\t"))
  .map(([list, before, after, indent]) => `${before}${JSON.stringify(list, null, indent)}${after}`);
/** JSON lists, most of them made invalid: a character is inserted, or up to two are removed or replaced. */
const brokenText = fc
  .tuple(listText, fc.nat(), fc.constantFrom("", ",", "]", "[", "{", "}", '"', "\\", "1", "é", "\u0000"), fc.nat(2))
  .map(([text, at, insert, cut]) => {
    const place = text.length === 0 ? 0 : at % text.length;
    return text.slice(0, place) + insert + text.slice(place + cut);
  });

describe("a body that is parsed part by part", () => {
  test("gives the same inputs as a body that is parsed whole", () => {
    fc.assert(
      fc.property(listText, (text) => {
        expect(outcomeOf(() => readInParts(text, anything))).toEqual(outcomeOf(() => anything.body(text, MAX_INPUTS)));
      }),
      { numRuns: 500 },
    );
  });

  test("is refused for the same reason as a body that is parsed whole", () => {
    fc.assert(
      fc.property(brokenText, (text) => {
        const [inParts, whole] = [readInParts, inOne].map((read) => outcomeOf(() => read(text, anything)));
        expect(inParts?.problem?.code).toBe(whole?.problem?.code);
        expect(inParts?.problem?.errors).toEqual(whole?.problem?.errors);
      }),
      { numRuns: 1500 },
    );
  });

  test("has its faults at the same positions as a body that is parsed whole", () => {
    const decoder = new InputDecoder(z.object({ x: z.number(), text: z.string().optional() }));
    const body = JSON.stringify(
      Array.from({ length: 40 }, (_, x) => (x % 7 === 3 ? { x: `${x}`, text: 'a],"b' } : { x, text: "é\\" })),
    );
    const inParts = outcomeOf(() => readInParts(body, decoder));
    expect(inParts).toEqual(outcomeOf(() => decoder.body(body, MAX_INPUTS)));
    expect(inParts.problem?.errors?.[0]?.pointer).toBe("/3/x");
  });
});

test("other work runs while a large body is checked", async () => {
  const bodies = new Bodies(new InputDecoder(z.array(z.number())));
  const inputs = Array.from({ length: 20_000 }, (_, i) => [i, ...Array<number>(20).fill(0.5)]);
  using turns = loopTurns();
  const decoded = await bodies.decode([new TextEncoder().encode(JSON.stringify(inputs))], inputs.length, {
    mustGrow() {},
  });
  expect(turns.count).toBeGreaterThan(4);
  expect(toArray(decoded.inputs)).toEqual(inputs);
});

describe("an input of a large body", () => {
  const decoder = new InputDecoder(z.object({ list: z.array(z.unknown()) }));
  const check = (body: string) => partsOf(new TextEncoder().encode(body), decoder, { maxInputs: 10 }).length;
  const withValues = (count: number, value: string) => `{"list":[${Array(count).fill(value).join()}]}`;

  test.each([
    ["numbers", "1", 1],
    ["texts", '"a,[{:"', 1],
    ["lists", "[]", 5],
    ["objects", "{}", 5],
    ["fields", '{"a":1}', 9],
  ])("is refused by its place if it has too many %s", (_, value, cost) => {
    const most = Math.floor((MAX_COST - 60) / cost);
    expect(check(`[{"list":[]},${withValues(most, value)}]`)).toBe(1);
    expect(() => check(`[{"list":[]},${withValues(most + 60, value)}]`)).toThrow(
      `/1: an input may have at most ${MAX_COST} values`,
    );
  });

  test("may have any number of characters", () => {
    expect(check(`[{"list":["${"A".repeat(2 * MAX_COST)}"]}]`)).toBe(1);
  });
});

/**
 * Checks a body in a new process. @param body JavaScript expression for the body @returns the body's length, the peak
 * memory beyond the body, and the error message
 */
async function peakOf(body: string): Promise<{ body: number; peak: number; message: string }> {
  const from = (path: string) => JSON.stringify(require.resolve(path));
  const script = `
    import { z } from ${from("../../src/index.ts")};
    import { InputDecoder } from ${from("../../src/pipeline/inputs/input-decoder.ts")};
    import { checkParts } from ${from("../../src/pipeline/inputs/large-body.ts")};
    const decoder = new InputDecoder(z.object({ x: z.number(), numbers: z.array(z.number()).default([]) }));
    const bytes = new TextEncoder().encode(${body});
    Bun.gc(true);
    const before = process.resourceUsage().maxRSS;
    let message = "";
    try { for (const _ of checkParts(bytes, decoder, { maxInputs: 1e7 })); } catch (error) { message = error.message; }
    console.log(JSON.stringify({ body: bytes.length, peak: (process.resourceUsage().maxRSS - before) * 1024, message }));
  `;
  await using child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  return JSON.parse(await new Response(child.stdout).text());
}

test.each([
  ["objects for numbers", `'[{"x":1,"numbers":[' + "{},".repeat(2e6) + '{}]}]'`, "at most 500000"],
  ["texts for numbers", `'[{"x":1,"numbers":[' + '"",'.repeat(2e6) + '""]}]'`, "at most 500000"],
  ["objects for inputs", `"[" + "{},".repeat(2e6) + "{}]"`, "/0/x: expected number, but it is missing"],
  ["a list that does not end", `"[" + "{},".repeat(2e6)`, "its list does not end"],
  ["a fault behind many inputs", `"[\\n" + "{\\"x\\":1},".repeat(1e6) + "{\\"x\\" 1}]"`, "JSON"],
  ["brackets that do not close", `"[".repeat(6e6)`, "its list does not end"],
  ["an object around the list", `'{"inputs":[' + "{},".repeat(2e6) + "{}]}"`, "expected a list of inputs, receiv"],
  ["too many levels", `"[" + "[".repeat(3e6) + "]".repeat(3e6) + "]"`, "/0: an input may have at most 500000 values"],
])("memory for a body with wrong inputs is a few times the body (%s)", async (_, expression, expected) => {
  const { body, peak, message } = await peakOf(expression);
  expect(message).toContain(expected);
  // 64 MiB are for the process itself.
  expect(peak).toBeLessThan(3 * body + 64 * 2 ** 20);
});

test("a list of numbers takes memory for its values, not for an object each", async () => {
  const { body, peak, message } = await peakOf(`'[{"x":1,"numbers":[' + "1,".repeat(4.9e5) + '1]}]'`);
  expect(message).toBe("");
  expect(peak).toBeLessThan(12 * body + 64 * 2 ** 20);
});

describe.concurrent("a server", () => {
  const store = fixture(async () => {
    await using dirs = await tempDir();
    const input = `z.object({ x: z.number().refine((x) => { if (x < 0) throw new Error("x is too small"); return true; }) })`;
    return await storeWith("lab", await writeModel(dirs, modelText({ name: '"throws"', input })));
  });

  const server = fixture(() => store.serve("lab", { batchSize: 64, maxInputs: 4000 }));

  /** Adds white space between the inputs, which makes the body large. */
  const spaced = (inputs: readonly unknown[]) =>
    inputs.map((input) => JSON.stringify(input)).join(`,${" ".repeat(300)}`);
  const xs = (count: number) => Array.from({ length: count }, (_, x) => ({ x }));
  const right = xs(2000).map(({ x }) => 2 * x + 1);

  test.each([
    ["at once", (list: string) => list],
    ["in chunks", (list: string) => new Blob([list]).stream()],
  ])("returns an output for each input of a large body that comes %s, in order", async (_, bodyOf) => {
    const response = await server.client.post(bodyOf(`[${spaced(xs(2000))}]`), { Prefer: "wait" });
    const { status, outputs } = (await response.json()) as PredictionBody;
    expect([status, outputs?.map(({ y }) => y)]).toEqual(["success", right]);
  });

  test.each([
    ["is not JSON", (list: string) => `[${list},]`, { status: 400, title: "Bad Request" }],
    ["is not UTF-8", (list: string) => new Blob([`[${list}, "`, Uint8Array.of(0xff), '"]']), { status: 400 }],
    ["is no list", (list: string) => `{"inputs": [${list}]}`, { status: 422 }],
    ["has too many inputs", (list: string) => `[${list},${list},{"x":1}]`, { status: 422 }],
    ["has a wrong input", (list: string) => `[${list},{"x":"1"}]`, { status: 422, errors: [{ pointer: "/2000/x" }] }],
  ])("refuses a large body that %s", async (_, bodyOf, problem) => {
    expect(await server.client.refused(bodyOf(spaced(xs(2000))))).toMatchObject(problem);
    expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
  });

  test("refuses a large body if the schema's own code throws", async () => {
    await using server = await store.serve("throws");
    const problem = await server.client.refused(`[${spaced(xs(2000))},{"x":-1}]`);
    expect(problem).toMatchObject({
      status: 422,
      errors: [{ pointer: "/2000" }],
    });
  });
});
