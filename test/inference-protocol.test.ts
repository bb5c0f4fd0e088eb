/**
 * The Open Inference Protocol v2: its tensors, in JSON or as bytes, are the fields of a prediction, to the last bit.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { deflateSync, gzipSync } from "node:zlib";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import {
  binaryAnswer,
  binaryBody,
  binaryInputs,
  changed,
  columns,
  elements,
  type InferBody,
  inferPath,
  jsonInputs,
  parts,
  post,
} from "./helpers/inference.ts";
import { writeModel } from "./helpers/model-text.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";
import { tensorModel } from "./helpers/tensor-model.ts";
import { bytesOf } from "./helpers/tensors.ts";

let version: string;

const dir = fixture(tempDir);
const store = fixture(async () => storeWith("lab", "picture", await writeModel(dir, tensorModel)));
const lab = fixture(() => store.serve("lab"));
const tensors = fixture(() => store.serve("lab/tensors"));
beforeAll(async () => {
  version = await tagOf(tensors);
});

async function tagOf({ client }: TestServer): Promise<string> {
  return ((await client.json("/")) as { tag: string }).tag;
}
const inference = fixture(() => tensors.client.at(inferPath));

describe("a server", () => {
  test("names itself, its version and its extensions of the protocol", async () => {
    expect(await lab.client.json("/v2")).toEqual({
      name: "sconce",
      version: expect.any(String),
      extensions: ["binary_tensor_data", "model_configuration", "model_repository"],
    });
  });

  test("is live and ready, in the bodies that KServe reads", async () => {
    expect(await lab.client.json("/v2/health/live")).toEqual({ live: true });
    expect(await lab.client.json("/v2/health/ready")).toEqual({ ready: true });
  });

  test("lists its model", async () => {
    expect(await (await post(tensors, "/v2/repository/index", "")).json()).toEqual([
      { name: "lab/tensors", version, state: "READY" },
    ]);
  });
});

describe("a model", () => {
  test("has its fields as tensors, with the batch as first dimension and -1 for free sizes", async () => {
    const fields = columns.map(([name, datatype, dims]) => ({
      name,
      datatype,
      shape: [-1, ...(name === "fp32" ? [-1, 2] : dims)],
    }));
    const note = { name: "note", datatype: "BYTES", shape: [-1] };
    const metadata = { name: "lab/tensors", versions: [version, "1"], platform: "sconce" };
    const expected = { ...metadata, inputs: [...fields, note], outputs: [...fields, note] };
    for (const suffix of ["", `/versions/${version}`]) {
      expect(await tensors.client.json(`/v2/models/lab/tensors${suffix}`)).toEqual(expected);
    }
  });

  test("has a configuration without the batch dimension", async () => {
    expect(await tensors.client.json("/v2/models/lab/tensors/config")).toMatchObject({
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
    const { digest } = (await tensors.client.json("/")) as { digest: string };
    for (const suffix of ["", `/versions/${version}`, `/versions/${digest}`, "/versions/1"]) {
      expect(await tensors.client.json(`/v2/models/lab/tensors${suffix}/ready`)).toEqual({ ready: true });
    }
  });
});

describe("an inference", () => {
  test("in JSON returns each tensor, and has the model and the id of the request", async () => {
    const response = await inference.post({ id: "mine", inputs: jsonInputs });
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

  test.each([
    [
      "nested lists",
      "list",
      [2, 2, 2],
      [
        [
          [1, 2],
          [3, 4],
        ],
        [
          [5, 6],
          [7, 8.5],
        ],
      ],
    ],
    ["one value per row as shape [n, 1]", "number", [2, 1], [[0.25], [1e-9]]],
  ])("accepts %s, too", async (_, name, shape, data) => {
    const { outputs } = (await (
      await inference.post({ ...changed(name, { shape, data }), outputs: [{ name }] })
    ).json()) as InferBody;
    const flat: unknown[] = data.flat(3);
    expect(outputs).toEqual([{ name, datatype: "FP64", shape: shape.at(-1) === 1 ? [2] : shape, data: flat }]);
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
      inferPath,
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

  test("returns the requested outputs in the requested order, each in JSON or binary", async () => {
    const outputs = [{ name: "text", parameters: { binary_data: true } }, { name: "int8" }];
    const { body, bytes } = await binaryAnswer(await inference.post({ inputs: jsonInputs, outputs }));
    expect(body.outputs).toEqual([
      { name: "text", datatype: "BYTES", shape: [2], parameters: { binary_data_size: 10 } },
      { name: "int8", datatype: "INT8", shape: [2, 2], data: [-128, 127, 0, 1] },
    ]);
    expect(bytes.get("text")).toEqual(new Uint8Array(elements("ä", "")));
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
  ])("takes a body in %s, and answers uncompressed", async (encoding, encode) => {
    const [body, headers] = binaryBody({ inputs: binaryInputs }, ...parts);
    const response = await post(tensors, inferPath, new Uint8Array(encode(body)), {
      ...headers,
      "Content-Encoding": encoding,
      "Accept-Encoding": encoding,
    });
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(((await response.json()) as InferBody).outputs[4]?.data).toEqual([-128, 127, 0, 1]);
  });

  test("of a picture takes the bytes of a file, and returns the bytes of pictures", async () => {
    await using picture = await store.serve("picture");
    const white = await Bun.file(new URL("models/picture/white.png", import.meta.url)).bytes();
    const file = { name: "image", datatype: "BYTES", shape: [1], parameters: { binary_data_size: white.length + 4 } };
    const request = { inputs: [file], parameters: { binary_data_output: true } };
    const length = bytesOf(Uint32Array.of(white.length));
    const answer = await post(picture, "/v2/models/picture/infer", ...binaryBody(request, length, white));
    const { body, bytes } = await binaryAnswer(answer);
    expect(body.outputs).toMatchObject([
      { name: "mean", datatype: "FP64", shape: [1, 3] },
      { name: "swatch", datatype: "BYTES", shape: [1] },
    ]);
    expect(bytes.get("mean")).toEqual(bytesOf(Float64Array.of(255, 255, 255)));
    expect(Buffer.from(bytes.get("swatch")?.subarray(5, 8) ?? []).toString()).toBe("PNG");
    // A string in JSON cannot be the bytes of a picture, and base64 without a media type could be any text.
    for (const parameters of [undefined, { content_type: "base64" }]) {
      const input = { name: "image", datatype: "BYTES", shape: [1], data: [white.toBase64()], parameters };
      const refused = await post(picture, "/v2/models/picture/infer", JSON.stringify({ inputs: [input] }));
      expect([refused.status, await refused.text()]).toEqual([
        400,
        expect.stringMatching(/'image', row 0: expected a file as .*data:image\/png;base64,/),
      ]);
    }
  });

  test("is canceled when its client leaves", async () => {
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
    await until(async () => (await lab.client.metric(canceled)) !== before);
    gate.release("a");
  });
});
