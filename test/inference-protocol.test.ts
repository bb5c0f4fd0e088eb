/** The Open Inference Protocol v2: tensors of JSON and of bytes are the fields of predictions, to the last bit. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deflateSync, gzipSync } from "node:zlib";
import { hold } from "./helpers/hold.ts";
import { writeModel } from "./helpers/model-text.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { tensorModel } from "./helpers/tensor-model.ts";

interface GivenTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly data?: readonly unknown[];
  readonly parameters?: Readonly<Record<string, unknown>>;
}

interface AnsweredTensor extends GivenTensor {
  readonly parameters?: { readonly binary_data_size: number };
}

interface InferBody {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly outputs: readonly AnsweredTensor[];
}

let dir: TempDir;
let store: TestStore;
let lab: TestServer;
let tensors: TestServer;
let version: string;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith("lab", "picture", await writeModel(dir, tensorModel));
  lab = await store.serve("lab");
  tensors = await store.serve("lab/tensors");
  version = await tagOf(tensors);
});

afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await tensors[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

async function tagOf({ client }: TestServer): Promise<string> {
  return ((await (await client.fetch("/")).json()) as { tag: string }).tag;
}

const path = "/v2/models/lab/tensors/infer";
const post = (
  server: TestServer,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) => server.client.fetch(path, { method: "POST", body, headers });
const infer = (body: unknown, headers: Record<string, string> = {}) =>
  post(tensors, path, typeof body === "string" ? body : JSON.stringify(body), headers);
const json = (response: Response): Promise<unknown> => response.json();

async function refusalOf(response: Response): Promise<[status: number, error: string]> {
  expect(response.headers.get("content-type")).toBe("application/json");
  const body = (await response.json()) as { readonly error: string };
  expect(Object.keys(body)).toEqual(["error"]);
  return [response.status, body.error];
}

/** JSON first, then the bytes of the tensors. */
function binaryBody(
  request: object,
  ...parts: readonly Uint8Array[]
): [Uint8Array<ArrayBuffer>, Record<string, string>] {
  const head = Buffer.from(JSON.stringify(request));
  return [new Uint8Array(Buffer.concat([head, ...parts])), { "Inference-Header-Content-Length": String(head.length) }];
}

async function binaryAnswer(response: Response): Promise<{ body: InferBody; bytes: Map<string, Uint8Array> }> {
  const all = await response.bytes();
  const length = Number(response.headers.get("inference-header-content-length"));
  const body = JSON.parse(Buffer.from(all.subarray(0, length)).toString()) as InferBody;
  const bytes = new Map<string, Uint8Array>();
  let at = length;
  for (const { name, parameters } of body.outputs) {
    const size = parameters?.binary_data_size ?? 0;
    bytes.set(name, all.subarray(at, at + size));
    at += size;
  }
  expect(at).toBe(all.length);
  return { body, bytes };
}

/** Elements of BYTES. */
function elements(...texts: readonly string[]): Buffer {
  return Buffer.concat(
    texts.flatMap((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(Buffer.byteLength(text));
      return [length, Buffer.from(text)];
    }),
  );
}

const bytesOf = (data: ArrayBufferView) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** Two rows of each input, as JSON and as bytes. */
const columns: readonly (readonly [
  name: string,
  datatype: string,
  dims: readonly number[],
  data: readonly unknown[],
  bytes: Uint8Array,
])[] = [
  [
    "fp32",
    "FP32",
    [3, 2],
    [0.1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -0.5],
    bytesOf(Float32Array.of(0.1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -0.5)),
  ],
  ["fp64", "FP64", [2], [0.1, 1e300, -5e-324, 4], bytesOf(Float64Array.of(0.1, 1e300, -5e-324, 4))],
  ["fp16", "FP16", [2], [1, 0.5, 65504, -2], bytesOf(Float16Array.of(1, 0.5, 65504, -2))],
  ["bf16", "BF16", [2], [1, 0.5, -2, 0], bytesOf(Uint16Array.of(0x3f80, 0x3f00, 0xc000, 0))],
  ["int8", "INT8", [2], [-128, 127, 0, 1], bytesOf(Int8Array.of(-128, 127, 0, 1))],
  ["int16", "INT16", [2], [-32768, 32767, 0, 1], bytesOf(Int16Array.of(-32768, 32767, 0, 1))],
  ["int32", "INT32", [2], [-(2 ** 31), 2 ** 31 - 1, 0, 1], bytesOf(Int32Array.of(-(2 ** 31), 2 ** 31 - 1, 0, 1))],
  [
    "int64",
    "INT64",
    [2],
    [2 ** 53 - 1, 1 - 2 ** 53, 0, 1],
    bytesOf(BigInt64Array.of(2n ** 53n - 1n, 1n - 2n ** 53n, 0n, 1n)),
  ],
  ["uint8", "UINT8", [2], [255, 0, 1, 2], bytesOf(Uint8Array.of(255, 0, 1, 2))],
  ["bool", "BOOL", [2], [true, false, false, true], bytesOf(Uint8Array.of(1, 0, 0, 1))],
  ["number", "FP64", [], [0.25, 1e-9], bytesOf(Float64Array.of(0.25, 1e-9))],
  ["whole", "INT64", [], [7, -7], bytesOf(BigInt64Array.of(7n, -7n))],
  ["flag", "BOOL", [], [true, false], bytesOf(Uint8Array.of(1, 0))],
  ["list", "FP64", [2, 2], [1, 2, 3, 4, 5, 6, 7, 8.5], bytesOf(Float64Array.of(1, 2, 3, 4, 5, 6, 7, 8.5))],
  ["text", "BYTES", [], ["ä", ""], elements("ä", "")],
  ["file", "BYTES", [], ["data:text/plain;base64,YQ==", "data:text/plain;base64,Yg=="], elements("a", "b")],
  ["any", "BYTES", [], ['{"a":1}', "{}"], elements('{"a":1}', "{}")],
];

const jsonInputs = columns.map(
  ([name, datatype, dims, data]): GivenTensor => ({ name, datatype, shape: [2, ...dims], data }),
);
const binaryInputs = columns.map(
  ([name, datatype, dims, , bytes]): GivenTensor => ({
    name,
    datatype,
    shape: [2, ...dims],
    parameters: { binary_data_size: bytes.length },
  }),
);
const parts = columns.map(([, , , , bytes]) => bytes);
const with_ = (name: string, change: Partial<GivenTensor>) => ({
  inputs: jsonInputs.map((input) => (input.name === name ? { ...input, ...change } : input)),
});

describe("a server", () => {
  test("says what it is, and which extensions it has", async () => {
    expect(await json(await lab.client.fetch("/v2"))).toEqual({
      name: "sconce",
      version: expect.any(String),
      extensions: ["binary_tensor_data", "model_configuration", "statistics"],
    });
  });

  test("is live and ready, in the bodies that KServe reads", async () => {
    expect(await json(await lab.client.fetch("/v2/health/live"))).toEqual({ live: true });
    expect(await json(await lab.client.fetch("/v2/health/ready"))).toEqual({ ready: true });
  });

  test("lists its model", async () => {
    expect(await json(await post(tensors, "/v2/repository/index", ""))).toEqual([
      { name: "lab/tensors", version, state: "READY" },
    ]);
  });

  test("has no /v2 with --api none", async () => {
    await using without = await store.serve("lab", { api: [] });
    expect((await without.client.fetch("/v2")).status).toBe(404);
  });
});

describe("a model", () => {
  test("has its fields as tensors, the batch first, free sizes as -1", async () => {
    const fields = columns.map(([name, datatype, dims]) => ({
      name,
      datatype,
      shape: [-1, ...(name === "fp32" ? [-1, 2] : dims)],
    }));
    const note = { name: "note", datatype: "BYTES", shape: [-1] };
    const metadata = { name: "lab/tensors", versions: [version, "1"], platform: "sconce" };
    const expected = { ...metadata, inputs: [...fields, note], outputs: [...fields, note] };
    for (const suffix of ["", `/versions/${version}`]) {
      expect(await json(await tensors.client.fetch(`/v2/models/lab/tensors${suffix}`))).toEqual(expected);
    }
  });

  test("has a configuration without the batch dimension", async () => {
    expect(await json(await tensors.client.fetch("/v2/models/lab/tensors/config"))).toMatchObject({
      name: "lab/tensors",
      max_batch_size: 4,
      input: expect.arrayContaining([
        { name: "fp32", data_type: "TYPE_FP32", dims: [-1, 2], optional: false },
        { name: "note", data_type: "TYPE_STRING", dims: [], optional: true },
      ]),
      output: expect.arrayContaining([{ name: "text", data_type: "TYPE_STRING", dims: [] }]),
    });
  });

  test("is ready under its tag, its digest, and 1", async () => {
    const { digest } = (await json(await tensors.client.fetch("/"))) as { digest: string };
    for (const suffix of ["", `/versions/${version}`, `/versions/${digest}`, "/versions/1"]) {
      expect(await json(await tensors.client.fetch(`/v2/models/lab/tensors${suffix}/ready`))).toEqual({ ready: true });
    }
  });

  test("counts inferences and their time", async () => {
    await using fresh = await store.serve("lab");
    const x = { name: "x", datatype: "FP64", shape: [3], data: [1, 2, 3] };
    await post(fresh, "/v2/models/lab/infer", JSON.stringify({ inputs: [x] }));
    const fail = { name: "fail", datatype: "BYTES", shape: [1], data: ["preprocess"] };
    const failed = await post(
      fresh,
      "/v2/models/lab/infer",
      JSON.stringify({ inputs: [{ ...x, shape: [1], data: [1] }, fail] }),
    );
    expect(await refusalOf(failed)).toEqual([500, "1 of 1 input failed: input 0: preprocess failed: no such x"]);
    const { model_stats } = (await json(await fresh.client.fetch("/v2/models/lab/stats"))) as { model_stats: object[] };
    const spent = (count: number) => ({ count, ns: expect.any(Number) });
    expect(model_stats).toEqual([
      {
        name: "lab",
        version: "1",
        inference_count: 3,
        execution_count: await fresh.client.metric("sconce_batch_size_count"),
        inference_stats: {
          success: spent(1),
          fail: spent(1),
          queue: spent(1),
          compute_input: spent(1),
          compute_infer: spent(1),
          compute_output: spent(1),
          cache_hit: { count: 0, ns: 0 },
          cache_miss: { count: 0, ns: 0 },
        },
        batch_stats: [],
      },
    ]);
  });
});

describe("an inference", () => {
  test("in JSON gives back each tensor, and has the model and the id of the request", async () => {
    const response = await infer({ id: "mine", inputs: jsonInputs });
    expect(response.headers.get("content-type")).toBe("application/json");
    const body = (await response.json()) as InferBody;
    expect(body).toMatchObject({ model_name: "lab/tensors", model_version: version, id: "mine" });
    const expected = jsonInputs.map(({ name, datatype, shape, data = [] }) => ({
      name,
      datatype,
      shape,
      data: name === "fp32" ? data.map((value) => Math.fround(Number(value))) : data,
    }));
    const note = { name: "note", datatype: "BYTES", shape: [2], data: ["null", "null"] };
    expect(body.outputs).toEqual([...expected, note]);
  });

  test("takes nested lists, too", async () => {
    const nested = with_("list", {
      data: [
        [
          [1, 2],
          [3, 4],
        ],
        [
          [5, 6],
          [7, 8.5],
        ],
      ],
    });
    const body = (await (await infer({ ...nested, outputs: [{ name: "list" }] })).json()) as InferBody;
    expect(body.outputs[0]?.data).toEqual([1, 2, 3, 4, 5, 6, 7, 8.5]);
  });

  test("takes one value a row as [n, 1], too", async () => {
    const number = { ...with_("number", { shape: [2, 1], data: [[0.25], [1e-9]] }), outputs: [{ name: "number" }] };
    const body = (await (await infer(number)).json()) as InferBody;
    expect(body.outputs).toEqual([{ name: "number", datatype: "FP64", shape: [2], data: [0.25, 1e-9] }]);
  });

  test.each([
    ["no type", undefined],
    ["application/octet-stream", "application/octet-stream"],
    ["text/plain", "text/plain"],
  ])("in binary gives back the same bytes, under %s", async (_, type) => {
    const request = { inputs: binaryInputs, parameters: { binary_data_output: true } };
    const [body, headers] = binaryBody(request, ...parts);
    const response = await post(
      tensors,
      path,
      body,
      type === undefined ? headers : { ...headers, "Content-Type": type },
    );
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    const answer = await binaryAnswer(response);
    expect(answer.body.outputs.map(({ shape }) => shape)).toEqual([...binaryInputs.map(({ shape }) => shape), [2]]);
    for (const [i, { name }] of binaryInputs.entries()) {
      expect([name, answer.bytes.get(name)]).toEqual([name, new Uint8Array(parts[i] ?? [])]);
    }
  });

  test("gives the chosen outputs in their order, each in JSON or binary", async () => {
    const outputs = [{ name: "text", parameters: { binary_data: true } }, { name: "int8" }];
    const { body, bytes } = await binaryAnswer(await infer({ inputs: jsonInputs, outputs }));
    expect(body.outputs).toEqual([
      { name: "text", datatype: "BYTES", shape: [2], parameters: { binary_data_size: 10 } },
      { name: "int8", datatype: "INT8", shape: [2, 2], data: [-128, 127, 0, 1] },
    ]);
    expect(bytes.get("text")).toEqual(new Uint8Array(elements("ä", "")));
  });

  test("gives the outputs of POST /predictions, to the last bit", async () => {
    const rows = [0.1, 1 / 3, 1e-30, 1e38];
    const { outputs = [] } = await lab.client.predict(rows.map((x) => ({ x })));
    const x = { name: "x", datatype: "FP64", shape: [4], parameters: { binary_data_size: 32 } };
    const request = { inputs: [x], outputs: [{ name: "y", parameters: { binary_data: true } }] };
    const [body, headers] = binaryBody(request, bytesOf(Float64Array.from(rows)));
    const { bytes } = await binaryAnswer(await post(lab, "/v2/models/lab/infer", body, headers));
    expect(bytes.get("y")).toEqual(bytesOf(Float64Array.from(outputs, ({ y }) => Number(y))));
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
  ])("takes a body in %s", async (encoding, encode) => {
    const [body, headers] = binaryBody({ inputs: binaryInputs }, ...parts);
    const response = await post(tensors, path, new Uint8Array(encode(body)), {
      ...headers,
      "Content-Encoding": encoding,
    });
    expect(((await response.json()) as InferBody).outputs[4]?.data).toEqual([-128, 127, 0, 1]);
  });

  test("of a picture takes its bytes alone, and gives the bytes of pictures", async () => {
    await using picture = await store.serve("picture");
    const white = await Bun.file(new URL("models/picture/white.png", import.meta.url)).bytes();
    const headers = { "Inference-Header-Content-Length": "0" };
    const { body, bytes } = await binaryAnswer(await post(picture, "/v2/models/picture/infer", white, headers));
    expect(body.outputs).toMatchObject([
      { name: "mean", datatype: "FP64", shape: [1, 3] },
      { name: "swatch", datatype: "BYTES", shape: [1] },
    ]);
    expect(bytes.get("mean")).toEqual(bytesOf(Float64Array.of(255, 255, 255)));
    expect(Buffer.from(bytes.get("swatch")?.subarray(5, 8) ?? []).toString()).toBe("PNG");
  });

  test("of a large body is the same as of a small one", async () => {
    const count = 100_000;
    const data = Float32Array.from({ length: 2 * count }, (_, i) => i / 7);
    const inputs = binaryInputs.map((input) => {
      if (input.name !== "fp32") return { ...input, shape: [1, ...input.shape.slice(1)] };
      return { ...input, shape: [1, count, 2], parameters: { binary_data_size: data.byteLength } };
    });
    const halves = columns.map(([name, datatype, , , bytes]) => {
      if (name === "fp32") return bytesOf(data);
      const length = datatype === "BYTES" ? 4 + (bytes[0] ?? 0) : bytes.length / 2;
      return bytes.subarray(0, length);
    });
    const sized = inputs.map((input, i) => ({ ...input, parameters: { binary_data_size: halves[i]?.length } }));
    const outputs = [{ name: "fp32", parameters: { binary_data: true } }];
    const [body, headers] = binaryBody({ inputs: sized, outputs }, ...halves);
    const { bytes } = await binaryAnswer(await post(tensors, path, body, headers));
    expect(Buffer.compare(bytes.get("fp32") ?? new Uint8Array(), bytesOf(data))).toBe(0);
  });

  test("ends with its client", async () => {
    await using gate = hold();
    const leaving = new AbortController();
    const input = (name: string, text: string) => ({ name, datatype: "BYTES", shape: [1], data: [text] });
    const inputs = [{ name: "x", datatype: "FP64", shape: [1], data: [1] }, input("before", gate.url("a"))];
    const canceled = 'sconce_predictions_total{status="failed",reason="canceled"}';
    const before = await lab.client.metric(canceled);
    const request = lab.client.fetch("/v2/models/lab/infer", {
      method: "POST",
      body: JSON.stringify({ inputs }),
      signal: leaving.signal,
    });
    await gate.arrived("a");
    leaving.abort();
    await request.catch(() => {});
    while ((await lab.client.metric(canceled)) === before);
    gate.release("a");
  });
});

describe("a refusal", () => {
  test.each([
    [
      "an unknown input",
      { inputs: [...jsonInputs, { name: "other", datatype: "FP32", shape: [2], data: [1, 2] }] },
      "unexpected inference input 'other' for model 'lab/tensors'",
    ],
    ["a missing input", { inputs: jsonInputs.slice(1) }, "input 'fp32' of model 'lab/tensors' is missing"],
    [
      "an input that is given twice",
      { inputs: [...jsonInputs, ...jsonInputs.slice(0, 1)] },
      "input 'fp32' is given twice",
    ],
    [
      "an unknown dtype",
      with_("int8", { datatype: "INT7" }),
      "input 'int8' of model 'lab/tensors' has the datatype INT8, the request says 'INT7'",
    ],
    [
      "another dtype",
      with_("number", { datatype: "FP32" }),
      "input 'number' of model 'lab/tensors' has the datatype FP64",
    ],
    [
      "a wrong size",
      with_("int8", { shape: [2, 3] }),
      "unexpected shape for input 'int8' for model 'lab/tensors'. Expected [-1,2], got [2,3]",
    ],
    ["a wrong rank", with_("fp32", { shape: [2, 6] }), "Expected [-1,-1,2], got [2,6]"],
    ["too few elements", with_("int8", { data: [1, 2, 3] }), "input 'int8' has 3 elements, and its shape [2,2] has 4"],
    [
      "another number of rows",
      with_("int8", { shape: [1, 2], data: [1, 2] }),
      "input 'int8' has 1 rows, and input 'fp32' has 2",
    ],
    [
      "an element out of range",
      with_("int8", { data: [1, 128, 1, 1] }),
      "input 'int8', element 1: expected a whole number from -128 to 127, received 128",
    ],
    [
      "an integer that JSON cannot carry",
      with_("int64", { data: [2 ** 53, 1, 1, 1] }),
      "input 'int64', element 0: expected a whole number of at most 2^53 - 1",
    ],
    ["a number as BYTES", with_("text", { data: [1, "a"] }), "input 'text', row 0: expected a string"],
    ["a field that is no JSON", with_("any", { data: ["{}", "{"] }), "input 'any', row 1: expected JSON"],
    ["a field of the wrong kind", with_("any", { data: ["{}", "[]"] }), "/1/any: expected record"],
    ["an unknown output", { inputs: jsonInputs, outputs: [{ name: "z" }] }, "unexpected inference output 'z'"],
    [
      "shared memory",
      with_("int8", { parameters: { shared_memory_region: "r" } }),
      "input 'int8' has the parameter 'shared_memory_region'",
    ],
    [
      "a sequence",
      { inputs: jsonInputs, parameters: { sequence_id: 1 } },
      "the request has the parameter 'sequence_id'",
    ],
    [
      "classification",
      { inputs: jsonInputs, outputs: [{ name: "fp32", parameters: { classification: 2 } }] },
      "output 'fp32' has the parameter 'classification'",
    ],
    ["a body without inputs", {}, "the request is invalid at inputs"],
    ["no JSON", "{", "failed to parse the request JSON buffer"],
  ])("names %s", async (_, body, message) => {
    const [status, error] = await refusalOf(await infer(body));
    expect([status, error]).toEqual([400, expect.stringContaining(message)]);
  });

  test("names rows that have other sizes than row 0 in an output", async () => {
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
    ["that end early", 5, "bytes are left behind the JSON"],
    ["that no input has", 3, "1 bytes behind the JSON belong to no input"],
  ])("names bytes %s", async (_, size, message) => {
    const inputs = jsonInputs.map((input) => {
      const { data: _, ...rest } = input;
      return input.name === "int8" ? { ...rest, parameters: { binary_data_size: size } } : input;
    });
    const [body, headers] = binaryBody({ inputs }, Uint8Array.of(1, 2, 3, 4));
    expect(await refusalOf(await post(tensors, path, body, headers))).toEqual([400, expect.stringContaining(message)]);
  });

  test("names a wrong number of bytes, a length beyond its element, and a header beyond the body", async () => {
    const refusedFor = async (name: string, bytes: Uint8Array) => {
      const inputs = jsonInputs.map((input) => {
        const { data: _, ...rest } = input;
        return input.name === name ? { ...rest, parameters: { binary_data_size: bytes.length } } : input;
      });
      const [body, headers] = binaryBody({ inputs }, bytes);
      return refusalOf(await post(tensors, path, body, headers));
    };
    expect(await refusedFor("int16", new Uint8Array(7))).toEqual([
      400,
      "input 'int16' has 7 bytes, and INT16 of the shape [2,2] has 8",
    ]);
    expect(await refusedFor("text", Uint8Array.of(9, 0, 0, 0, 65))).toEqual([
      400,
      "input 'text', element 0: its bytes end before its length",
    ]);
    expect(await refusedFor("text", Uint8Array.of(1, 0, 0, 0, 255, 0, 0, 0, 0))).toEqual([
      400,
      "input 'text', row 0: the bytes are not UTF-8",
    ]);
    expect(await refusalOf(await infer("{}", { "Inference-Header-Content-Length": "3" }))).toEqual([
      400,
      "Inference-Header-Content-Length is 3, and the body has 2 bytes",
    ]);
    expect(await refusalOf(await infer("1234", { "Inference-Header-Content-Length": "0" }))).toEqual([
      400,
      expect.stringContaining("a raw request needs a model with one input"),
    ]);
  });

  test.each([
    ["GET", "/v2/models/other", 404, "Request for unknown model: 'other' is not found"],
    ["POST", "/v2/models/other/infer", 404, "Request for unknown model: 'other' is not found"],
    ["GET", "/v2/models/lab/tensors/versions/9/ready", 404, "'lab/tensors' version 9 is not found"],
    ["GET", "/v2/nothing", 404, "there is nothing at /v2/nothing"],
    ["GET", "/v2/models/lab/tensors/infer", 405, "Method Not Allowed"],
    ["POST", "/v2", 405, "Method Not Allowed"],
  ])("of %s %s has status %d", async (method, path, status, message) => {
    const response = await tensors.client.fetch(path, { method });
    expect(await refusalOf(response)).toEqual([status, expect.stringContaining(message)]);
  });

  test("of a full queue is 503, as Triton's, with Retry-After; a body that is too large is 413", async () => {
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

  test("is counted by its cause, and requests by their route", async () => {
    const refused = () => tensors.client.metric('sconce_requests_rejected_total{code="422",cause="inputs"}');
    const counted = () =>
      tensors.client.metric('sconce_http_requests_total{route="/v2/models/{model}/infer",code="400"}');
    const before = [await refused(), await counted()];
    await infer({ inputs: [] });
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
