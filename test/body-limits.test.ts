/** No body holds the event loop: an API refuses a body that costs too much by name, and bodies that arrive together take turns. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { MAX_COST, sizeOfJson } from "../src/base/json-text.ts";
import { readMessage } from "../src/http/apis/message.ts";
import { Uploads } from "../src/http/uploads.ts";
import { z } from "../src/index.ts";
import { Bodies } from "../src/pipeline/inputs/body.ts";
import { InputDecoder } from "../src/pipeline/inputs/input-decoder.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { clientOf } from "./helpers/cli.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { loopTurns } from "./helpers/loop-turns.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const list = (count: number, element: string) => `[${Array(count).fill(element).join()}]`;
/** More values than an event loop may parse at once. */
const many = list(MAX_COST / 4, "[]");
/** The length of the longest list of the model, nearly all values that API v2 takes. */
const VALUES = 490_000;
/** No request holds an event loop for 50 ms. A busy machine, whose programs share its caches, may need a few times this. */
const MAX_LOOP_MS = 200;
/** A program that sends a body from a file, and prints the status of the answer. */
const sending = `
const [url, path] = process.argv.slice(-2);
const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", Prefer: "wait" };
const { status } = await fetch(url, { method: "POST", body: await Bun.file(path).bytes(), headers });
console.log(status);
`;
const messageIn = (body: string | Uint8Array<ArrayBuffer>, memory: MemoryAccount) => {
  const raw = new Request("http://localhost", { method: "POST", body });
  const options = { memory, uploads: new Uploads(), config: { maxBodyBytes: Number.POSITIVE_INFINITY } };
  return readMessage(raw, options, (value) => value);
};
const megabytes = (count: number) => "a".repeat(count * 2 ** 20);

describe("a server", () => {
  const dir = fixture(tempDir);
  const store = fixture(async () => {
    const model = modelText({
      name: '"limits"',
      input: `z.object({ text: z.string(), other: z.string().optional(), numbers: z.array(z.number()).length(2).optional(), any: z.unknown().optional(), row: z.array(z.number()).length(${VALUES}).optional() })`,
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
  /** The same in processes of its own, so that its event loop is not that of the test. */
  const running = fixture(() => store.start(["limits", "--fronts", "1"]));

  const infer = "/v2/models/limits/infer";
  const tensor = (data: string, rest = "", more = "") =>
    `{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":[${data}]}${more}]${rest}}`;
  const row = (data: string) => `{"name":"row","shape":[1,${VALUES}],"datatype":"FP64","data":${data}}`;
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
    ["/mcp", call(`{"text":"a","any":${many}}`), 413, ofValues],
    ["/predictions", `[{"text":"${megabytes(44)}"}]`, 422, "an input may have at most 37748736 bytes of JSON"],
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

  // The model's lists have a fixed number of values in API v2.
  const values = list(VALUES, "0.123456789");
  const nested = `[${"[],".repeat(15e6)}[]]`;
  const text = (size: number) => `"${megabytes(size)}"`;

  test.skipIf(process.platform !== "linux").each<[path: string, taken: () => string, refused: () => string]>([
    ["/predictions", () => `[{"text":${text(35)}}]`, () => `[{"text":${text(60)}}]`],
    ["/predictions", () => `[{"text":"a","any":${list(MAX_COST - 100, "1")}}]`, () => `[{"text":"a","any":${nested}}]`],
    ["/demo", () => `[{"text":"a","any":${list(MAX_COST / 5 - 100, "[]")}}]`, () => `[{"text":"a","any":${nested}}]`],
    [infer, () => tensor('"a"', `,"other":${list(90_000, "[]")}`), () => tensor('"a"', `,"other":${nested}`)],
    [infer, () => tensor(text(7), `,"other":${list(90_000, "[]")}`), () => tensor(text(60))],
    [infer, () => tensor('"a"', "", `,${row(values)}`), () => tensor('"a"', "", `,${row(nested)}`)],
    [
      "/v1/embeddings",
      () => `{"input":${text(7)},"other":${list(90_000, "[]")}}`,
      () => `{"input":"a","other":${nested}}`,
    ],
    [
      "/v2/rerank",
      () => `{"query":"a","documents":[${text(7)}]}`,
      () => `{"query":"a","documents":["b"],"other":${nested}}`,
    ],
    ["/classify", () => `{"input":${text(7)},"other":${list(90_000, "[]")}}`, () => `{"input":"a","other":${nested}}`],
    ["/mcp", () => call(`{"text":${text(7)},"any":${list(90_000, "[]")}}`), () => call(`{"text":"a","any":${nested}}`)],
    ["/mcp", () => call(`{"text":"a","any":${list(MAX_COST - 100, "1")}}`), () => call(`{"text":"a","any":${nested}}`)],
  ])(
    "answers others while it takes the largest body, and while it refuses a larger one (%s)",
    async (path, taken, refused) => {
      const separate = await clientOf(running);
      const [front = 0] = await inRole(running.pid, "front");
      // Processor time of the event loop's thread. Unlike the time of a clock, it hardly depends on other programs.
      const loopMs = () => Number(readFileSync(`/proc/${front}/task/${front}/schedstat`, "utf8").split(" ")[0]) / 1e6;
      for (const [body, statuses] of [
        [taken, [200]],
        [refused, [413, 422]],
      ] as const) {
        await Bun.write(dir.join("body"), body());
        const sender = Bun.spawn([process.execPath, "-e", sending, new URL(path, separate.url).href, dir.join("body")]);
        let isRunning = true;
        void sender.exited.then(() => {
          isRunning = false;
        });
        let [longestMs, lastMs] = [0, loopMs()];
        while (isRunning) {
          expect((await separate.fetch("/health/live")).status).toBe(200);
          const nowMs = loopMs();
          longestMs = Math.max(longestMs, nowMs - lastMs);
          lastMs = nowMs;
        }
        expect(statuses as readonly number[]).toContain(Number(await sender.stdout.text()));
        expect(longestMs).toBeLessThan(MAX_LOOP_MS);
      }
    },
    60_000,
  );

  test.each([
    ["more elements than its shape", 1, new Uint8Array(2 ** 22), "'text' are not 1 elements"],
    ["more rows than the server takes", 2 ** 20, new Uint8Array(2 ** 22), "expected at most 10000 inputs"],
    ["fewer elements than its shape", 3, new Uint8Array(8), "'text' are not 3 elements"],
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
    const decoded = await Promise.all(texts.map((text) => bodies.decode([bytesOf(text)], 1, { mustGrow() {} })));
    expect(decoded.map(({ inputs }) => inputs.get(0))).toEqual(texts.map((text) => JSON.parse(text)[0]));
    expect(turns.count).toBeGreaterThan(3);
  });

  test("are decoded in many turns of the event loop by the APIs of other servers, too", async () => {
    const memory = new MemoryAccount();
    using turns = loopTurns();
    const read = await Promise.all(texts.map((text) => messageIn(text, memory)));
    expect(read.map(({ value }) => value)).toEqual(texts.map((text) => JSON.parse(text)));
    expect(turns.count).toBeGreaterThan(3);
  });
});

describe("the memory of parsed values", () => {
  const body = bytesOf(list(20_000, "[]"));
  const { bytes } = sizeOfJson(body);

  test("is counted before a message is parsed", async () => {
    const { charge } = await messageIn(body, new MemoryAccount());
    expect(charge.bytes).toBe(body.length + bytes);
    const memory = new MemoryAccount({ maxBytes: 3 * bytes });
    using full = memory.add("tensors", 2 * bytes);
    expect(await failureOf(messageIn(body, memory))).toMatchObject({ code: "queue_full" });
    expect(full.bytes).toBe(2 * bytes);
  });

  test("is counted before a body is parsed", async () => {
    const bodies = new Bodies(new InputDecoder(z.unknown()));
    let taken = 0;
    const mustGrow = (added: number) => {
      taken += added;
    };
    await bodies.decode([body], 20_000, { mustGrow });
    expect(taken).toBe(bytes - 2 * body.length);
    const full = new Error("full");
    const decoding = async () =>
      bodies.decode([body], 20_000, {
        mustGrow() {
          throw full;
        },
      });
    expect(decoding()).rejects.toBe(full);
  });
});
