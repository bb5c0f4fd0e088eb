/** No body holds the event loop: an API refuses a body that costs too much by name, and bodies that arrive together take turns. */
import { describe, expect, test } from "bun:test";
import { z } from "../src/index.ts";
import { parseMessage } from "../src/server/http/apis/waited-predictions.ts";
import { Bodies } from "../src/server/inputs/bodies.ts";
import { InputDecoder } from "../src/server/inputs/input-decoder.ts";
import { MAX_COST, sizeOfJson } from "../src/server/inputs/json-size.ts";
import { MemoryAccount } from "../src/server/memory/memory-account.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture } from "./helpers/fixture.ts";
import { loopTurns } from "./helpers/loop-turns.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const list = (count: number, element: string) => `[${Array(count).fill(element).join()}]`;
/** More values than an event loop may parse at once. */
const many = list(MAX_COST / 4, "[]");
const megabytes = (count: number) => "a".repeat(count * 2 ** 20);

describe("a server", () => {
  const dir = fixture(tempDir);
  const store = fixture(async () => {
    const model = modelText({
      name: '"limits"',
      input:
        "z.object({ text: z.string(), other: z.string().optional(), numbers: z.array(z.number()).length(2).optional(), any: z.unknown().optional() })",
      output: "z.object({ y: z.array(z.number()), score: z.number(), label: z.string() })",
      example: '{ text: "a" }',
      preprocess: "() => ({ x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) })",
      postprocess: "({ y }) => ({ y: [y.data[0]], score: y.data[0], label: 'a' })",
      openai:
        '{ embeddings: { input: "text", output: "y" }, rerank: { query: "text", document: "other", score: "score" }, classify: { input: "text", scores: "score", label: "label" } }',
    });
    return storeWith(await writeModel(dir, model));
  });
  const server = fixture(() => store.serve("limits"));

  const infer = "/v2/models/limits/infer";
  const tensor = (data: string, rest = "") =>
    `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":[${data}]}]${rest}}`;
  const call = (args: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"limits","arguments":${args}}}`;
  const post = async (path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => {
    const all = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...headers };
    const response = await server.client.fetch(path, { method: "POST", body, headers: all });
    return [response.status, await response.text()] as const;
  };
  const form = (value: string) => `--b\r\nContent-Disposition: form-data; name="numbers"\r\n\r\n${value}\r\n--b--\r\n`;
  const formType = { "Content-Type": "multipart/form-data; boundary=b" };
  const ofValues = `at most ${MAX_COST} values`;
  const ofBytes = "a body may have at most 8388608 bytes of JSON here";

  test.each([
    ["/predictions", `[{"text":"a","any":${many}}]`, 422, ofValues],
    ["/demo", `[{"text":"a","any":${many}}]`, 422, ofValues],
    [infer, tensor('"a"', `,"other":${many}`), 413, ofValues],
    [infer, tensor(`"${megabytes(9)}"`), 413, ofBytes],
    ["/v1/embeddings", `{"input":"a","other":${many}}`, 413, ofValues],
    ["/v1/embeddings", `{"input":"${megabytes(9)}"}`, 413, ofBytes],
    ["/v2/rerank", `{"query":"a","documents":["b"],"other":${many}}`, 413, ofValues],
    ["/v2/rerank", `{"query":"a","documents":["${megabytes(9)}"]}`, 413, ofBytes],
    ["/classify", `{"input":"a","other":${many}}`, 413, ofValues],
    ["/classify", `{"input":"${megabytes(9)}"}`, 413, ofBytes],
    ["/mcp", call(`{"text":"a","any":${many}}`), 413, `at most ${MAX_COST / 2} values`],
    ["/predictions", `[{"text":"${megabytes(49)}"}]`, 422, "an input may have at most 50331648 bytes of JSON"],
    ["/mcp", call(`{"text":"${megabytes(9)}"}`), 413, ofBytes],
  ])("refuses a body that costs too much, by name (%s)", async (path, body, status, text) => {
    const [received, answer] = await post(path, body);
    expect(received).toBe(status);
    expect(answer).toContain(text);
  });

  test("refuses a form that costs too much, by name", async () => {
    expect(await post("/predictions", form(list(MAX_COST, "1")), formType)).toMatchObject([
      422,
      expect.stringContaining(ofValues),
    ]);
  });

  test.each([
    ["/predictions", `[{"text":"${megabytes(9)}","any":${list(90_000, "[]")}}]`],
    [infer, tensor(`"${megabytes(7)}"`, `,"other":${list(90_000, "[]")}`)],
    ["/v1/embeddings", `{"input":"${megabytes(7)}","other":${list(90_000, "[]")}}`],
    ["/classify", `{"input":"${megabytes(7)}","other":${list(90_000, "[]")}}`],
    ["/mcp", call(`{"text":"${megabytes(7)}","any":${list(45_000, "[]")}}`)],
  ])("takes a body of nearly this size and cost (%s)", async (path, body) => {
    const [status, answer] = await post(path, body, { Prefer: "wait" });
    expect([status, answer.slice(0, 200)]).toEqual([200, expect.any(String)]);
  });

  test.each([
    ["more elements than its shape", 1, new Uint8Array(2 ** 22), "has more elements than its shape, which has 1"],
    ["more rows than the server takes", 2 ** 20, new Uint8Array(2 ** 22), "expected at most 10000 inputs"],
    ["fewer elements than its shape", 3, new Uint8Array(8), "has 2 elements, and its shape has 3"],
  ])("refuses a binary tensor with %s, before it makes elements", async (_, rows, data, text) => {
    const input = { name: "text", shape: [rows], datatype: "BYTES", parameters: { binary_data_size: data.length } };
    const head = bytesOf(JSON.stringify({ inputs: [input] }));
    const headers = { "Inference-Header-Content-Length": String(head.length) };
    const [status, answer] = await post(infer, new Uint8Array(Buffer.concat([head, data])), headers);
    expect([status, answer]).toEqual([400, expect.stringContaining(text)]);
  });

  test("refuses JSON in binary tensors that costs too much, by name", async () => {
    const element = bytesOf(many);
    const data = Buffer.concat([new Uint8Array(Uint32Array.of(element.length).buffer), element]);
    const inputs = [
      { name: "text", shape: [1], datatype: "BYTES", data: ["a"] },
      { name: "any", shape: [1], datatype: "BYTES", parameters: { binary_data_size: data.length } },
    ];
    const head = bytesOf(JSON.stringify({ inputs }));
    const headers = { "Inference-Header-Content-Length": String(head.length) };
    const [status, answer] = await post(infer, new Uint8Array(Buffer.concat([head, data])), headers);
    expect([status, answer]).toEqual([413, expect.stringContaining(ofValues)]);
  });
});

describe("bodies that arrive together", () => {
  const texts = Array.from({ length: 200 }, (_, i) => `[{"id":${i},"numbers":${list(9000, "0.125")}}]`);

  test("are decoded in many turns of the event loop", async () => {
    const bodies = new Bodies(new InputDecoder(z.object({ id: z.number(), numbers: z.array(z.number()) })));
    using turns = loopTurns();
    const decoded = await Promise.all(texts.map((text) => bodies.decode([bytesOf(text)], 1, () => {})));
    expect(decoded.map(({ inputs }) => inputs.get(0))).toEqual(texts.map((text) => JSON.parse(text)[0]));
    expect(turns.count).toBeGreaterThan(3);
  });

  test("are decoded in many turns of the event loop by the APIs of other servers, too", async () => {
    const memory = new MemoryAccount();
    using turns = loopTurns();
    const read = texts.map((text) => parseMessage(bytesOf(text), memory.add("bodies", 0), (value) => value));
    expect(await Promise.all(read)).toEqual(texts.map((text) => JSON.parse(text)));
    expect(turns.count).toBeGreaterThan(3);
  });
});

describe("the memory of parsed values", () => {
  const body = bytesOf(list(20_000, "[]"));
  const { bytes } = sizeOfJson(body);

  test("is counted before a message is parsed", async () => {
    const memory = new MemoryAccount({ maxBytes: 3 * bytes });
    using charge = memory.add("bodies", 3 * body.length);
    await parseMessage(body, charge, () => expect(charge.bytes).toBe(body.length + bytes));
    using full = memory.add("tensors", 2 * bytes);
    const refused = memory.add("bodies", 3 * body.length);
    expect(await failureOf(parseMessage(body, refused, () => {}))).toMatchObject({ code: "queue_full" });
    expect(full.bytes).toBe(2 * bytes);
  });

  test("is counted before a body is parsed", async () => {
    const bodies = new Bodies(new InputDecoder(z.unknown()));
    let taken = 0;
    await bodies.decode([body], 20_000, (added) => {
      taken += added;
    });
    expect(taken).toBe(bytes - 2 * body.length);
    const full = new Error("full");
    const decoding = async () =>
      bodies.decode([body], 20_000, () => {
        throw full;
      });
    expect(decoding()).rejects.toBe(full);
  });
});
