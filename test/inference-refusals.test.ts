/** The Open Inference Protocol v2 refuses a request that does not fit the model, and names the fault. */
import { describe, expect, test } from "bun:test";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { binaryBody, changed, inferPath, jsonInputs, post, refusalOf } from "./helpers/inference.ts";
import { writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { tensorModel } from "./helpers/tensor-model.ts";

const dir = fixture(tempDir);
const store = fixture(async () => storeWith("lab", "picture", await writeModel(dir, tensorModel)));
const tensors = fixture(() => store.serve("lab/tensors"));

const inference = fixture(() => tensors.client.at(inferPath));

describe("a refusal", () => {
  test.each([
    [
      "an unknown input",
      { inputs: [...jsonInputs, { name: "other", datatype: "FP32", shape: [2], data: [1, 2] }] },
      "unexpected inference input 'other' for model 'lab/tensors'",
    ],
    ["a missing input", { inputs: jsonInputs.slice(1) }, "input 'fp32' of model 'lab/tensors' is missing"],
    ["an input that is given twice", { inputs: [...jsonInputs, ...jsonInputs.slice(0, 1)] }, "'fp32' is given twice"],
    ["an unknown dtype", changed("int8", { datatype: "INT7" }), "has the datatype INT8, the request says 'INT7'"],
    ["another dtype", changed("number", { datatype: "FP32" }), "of model 'lab/tensors' has the datatype FP64"],
    ["a wrong size", changed("int8", { shape: [2, 3] }), "for model 'lab/tensors'. Expected [-1,2], got [2,3]"],
    ["a wrong rank", changed("fp32", { shape: [2, 6] }), "Expected [-1,-1,2], got [2,6]"],
    ["too few elements", changed("int8", { data: [1, 2, 3] }), "has 3 elements, and its shape [2,2] has 4"],
    ["another number of rows", changed("int8", { shape: [1, 2], data: [1, 2] }), "1 rows, and input 'fp32' has 2"],
    ["an element out of range", changed("int8", { data: [1, 128, 1, 1] }), "number from -128 to 127, received 128"],
    ["an integer that JSON cannot carry", changed("int64", { data: [2 ** 53, 1, 1, 1] }), "number of at most 2^53 - 1"],
    ["a number as BYTES", changed("text", { data: [1, "a"] }), "input 'text', row 0: expected a string"],
    ["a field that is no JSON", changed("any", { data: ["{}", "{"] }), "input 'any', row 1: expected JSON"],
    ["a field of the wrong kind", changed("any", { data: ["{}", "[]"] }), "/1/any: expected record"],
    ["an unknown output", { inputs: jsonInputs, outputs: [{ name: "z" }] }, "unexpected inference output 'z'"],
    ["shared memory", changed("int8", { parameters: { shared_memory_region: "r" } }), "this server does not support"],
    ["a sequence", { inputs: jsonInputs, parameters: { sequence_id: 1 } }, "invalid at parameters.sequence_id"],
    [
      "classification",
      { inputs: jsonInputs, outputs: [{ name: "fp32", parameters: { classification: 2 } }] },
      "the request is invalid at outputs.0.parameters.classification: this server does not support it",
    ],
    ["a body without inputs", {}, "the request is invalid at inputs"],
    ["no JSON", "{", "not JSON"],
  ])("names %s", async (_, body, message) => {
    const [status, error] = await refusalOf(await inference.post(body));
    expect([status, error]).toEqual([400, expect.stringContaining(message)]);
  });

  test("names rows whose output has another size than that of row 0", async () => {
    await using store_ = await storeWith(await writeModel(dir, ragged, "ragged"));
    await using server = await store_.serve("ragged");
    const inputs = [{ name: "x", datatype: "FP64", shape: [2], data: [1, 2] }];
    const response = await post(server, "/v2/models/ragged/infer", JSON.stringify({ inputs }));
    expect(await refusalOf(response)).toEqual([
      400,
      expect.stringContaining("output 'many' has the shape [2] in row 1"),
    ]);
  });

  test.each([
    ["bytes that end early", "int8", [1, 2, 3, 4], 5, "bytes are left behind the JSON"],
    ["bytes that no input has", "int8", [1, 2, 3, 4], 3, "1 bytes behind the JSON belong to no input"],
    ["a wrong number of bytes", "int16", Array(7).fill(0), 7, "7 bytes, and INT16 of the shape [2,2] has 8"],
    [
      "a length that exceeds its element",
      "text",
      [9, 0, 0, 0, 65],
      5,
      "'text' are not 2 elements, each after its length",
    ],
    ["bytes that are no text", "text", [1, 0, 0, 0, 255, 0, 0, 0, 0], 9, "'text', row 0: the bytes are not UTF-8"],
  ])("names %s", async (_, name, bytes, size, message) => {
    const inputs = jsonInputs.map((input) => {
      const { data: _, ...rest } = input;
      return input.name === name ? { ...rest, parameters: { binary_data_size: size } } : input;
    });
    const [body, headers] = binaryBody({ inputs }, Uint8Array.from(bytes));
    expect(await refusalOf(await post(tensors, inferPath, body, headers))).toEqual([
      400,
      expect.stringContaining(message),
    ]);
  });

  test("names a header that exceeds the body", async () => {
    expect(await refusalOf(await inference.post("{}", { "Inference-Header-Content-Length": "3" }))).toEqual([
      400,
      "Inference-Header-Content-Length is 3, and the body has 2 bytes",
    ]);
  });

  test.each([
    ["GET", "/v2/models/other", 404, "Request for unknown model: 'other' is not found"],
    ["POST", "/v2/models/other/infer", 404, "Request for unknown model: 'other' is not found"],
    ["GET", "/v2/models/lab/tensors/versions/9/ready", 404, "'lab/tensors' version 9 is not found"],
    ["GET", "/v2/nothing", 404, "there is nothing at /v2/nothing"],
    ["GET", "/v2/models/lab/tensors/infer", 405, "takes POST, not GET"],
    ["POST", "/v2", 405, "/v2 takes HEAD, GET, not POST"],
  ])("of %s %s has status %d", async (method, path, status, message) => {
    const response = await tensors.client.fetch(path, { method });
    expect(await refusalOf(response)).toEqual([status, expect.stringContaining(message)]);
  });

  test("of a failed prediction is 500, with its message", async () => {
    await using lab = await store.serve("lab");
    const x = { name: "x", datatype: "FP64", shape: [1], data: [1] };
    const fail = { name: "fail", datatype: "BYTES", shape: [1], data: ["preprocess"] };
    const failed = await post(lab, "/v2/models/lab/infer", JSON.stringify({ inputs: [x, fail] }));
    expect(await refusalOf(failed)).toEqual([500, expect.stringContaining("input 0: ")]);
  });

  test("of a full queue is 503 with Retry-After, as Triton's; of a body that is too large it is 413", async () => {
    await using gate = hold();
    await using narrow = await store.serve("lab", { maxQueuedItems: 1, maxBodyBytes: 1000 });
    const waiting = narrow.client.predict([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    const x = { name: "x", datatype: "FP64", shape: [1], data: [1] };
    const full = await post(narrow, "/v2/models/lab/infer", JSON.stringify({ inputs: [x] }));
    expect(full.headers.get("retry-after")).toMatch(/^\d+$/);
    expect((await refusalOf(full))[0]).toBe(503);
    gate.release("a");
    await waiting;
    expect((await refusalOf(await post(narrow, "/v2/models/lab/infer", " ".repeat(1001))))[0]).toBe(413);
  });

  test.each([
    ["GET", "/v2", { Host: "page.example" }, 'requests to the host "page.example" are refused here'],
    ["GET", "/v2/health/live", { Host: "page.example" }, 'requests to the host "page.example" are refused here'],
    ["POST", inferPath, { Origin: "https://page.example" }, "pages of https://page.example may not start"],
  ])(
    "of %s %s from a page of another site is an error, too",
    async (method, path, headers: Record<string, string>, message) => {
      const response = await tensors.client.fetch(path, { method, headers });
      expect(await refusalOf(response)).toEqual([403, expect.stringContaining(message)]);
    },
  );

  test("is counted in the metrics by its cause, and requests by their route", async () => {
    const refused = () => tensors.client.metric('sconce_requests_rejected_total{code="422",cause="inputs"}');
    const counted = () =>
      tensors.client.metric('sconce_http_requests_total{route="/v2/models/{model}/infer",code="400"}');
    const before = [await refused(), await counted()];
    await inference.post({ inputs: [] });
    expect([await refused(), await counted()]).toEqual(before.map((count) => count + 1));
  });
});

const ragged = `import { defineModel, float32, int64, ndarray, tensor, z } from "sconce";

export default defineModel({
  name: "ragged",
  input: z.object({ x: z.number() }),
  output: z.object({ many: ndarray(float32("n")) }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  example: { x: 1 },
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) }),
  postprocess: (_, { input: { x } }) => ({ many: tensor(new Float32Array(x), [x]) }),
});
`;
