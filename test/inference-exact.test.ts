/** The Open Inference Protocol v2 carries numbers that JSON cannot express, in both directions. */
import { describe, expect, test } from "bun:test";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { binaryAnswer, binaryBody, type GivenTensor, type InferBody, post, refusalOf } from "./helpers/inference.ts";
import { writeModel } from "./helpers/model-text.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";
import { bytesOf } from "./helpers/tensors.ts";

const model = `import { defineModel, float32, int64, ndarray, tensor, z } from "sconce";

const pair = ndarray(float32(2));

export default defineModel({
  name: "exact",
  input: z.object({ floats: ndarray(float32("n")), wholes: ndarray(int64(3)) }),
  output: z.object({
    floats: ndarray(float32("n")),
    wholes: ndarray(int64(3)),
    boxes: z.array(z.object({ corner: pair })),
    maybe: pair.optional(),
  }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  batchSize: 4,
  example: { floats: [1], wholes: [1, 2, 3] },
  preprocess: () => ({ x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) }),
  postprocess(_, { input }) {
    const corner = tensor(Float32Array.of(0.5, 2), [2]);
    return { ...input, boxes: [{ corner }], maybe: corner };
  },
});
`;

const path = "/v2/models/exact/infer";
const floats = Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1e-45, 0.1);
const wholes = BigInt64Array.of(2n ** 53n + 1n, -(2n ** 63n), 2n ** 63n - 1n);

const dir = fixture(tempDir);
const store = fixture(async () => storeWith(await writeModel(dir, model)));
const server = fixture(() => store.serve("exact"));

const inputOf = (name: string, datatype: string, data: ArrayBufferView & { readonly length: number }): GivenTensor => ({
  name,
  datatype,
  shape: [1, data.length],
  parameters: { binary_data_size: data.byteLength },
});

/** A request with binary tensors. @param spaces number of spaces in the JSON, which move the tensors behind it */
function request(numbers: Float32Array, parameters: object, spaces = 0): ReturnType<typeof binaryBody> {
  const inputs = [inputOf("floats", "FP32", numbers), inputOf("wholes", "INT64", wholes)];
  const space = " ".repeat(spaces);
  return binaryBody({ inputs, parameters: { ...parameters, space } }, bytesOf(numbers), bytesOf(wholes));
}

async function roundTrip(to: TestServer, numbers: Float32Array, spaces = 0): Promise<void> {
  const { bytes } = await binaryAnswer(await post(to, path, ...request(numbers, { binary_data_output: true }, spaces)));
  expect(Buffer.compare(bytes.get("floats") ?? new Uint8Array(), bytesOf(numbers))).toBe(0);
  expect(bytes.get("wholes")).toEqual(bytesOf(wholes));
}

describe("binary tensors", () => {
  test("return NaN, infinities, -0 and every int64, at any offset in the body", async () => {
    for (let spaces = 0; spaces < 8; spaces++) await roundTrip(server, floats, spaces);
  });

  test("return a million numbers, too", () =>
    roundTrip(
      server,
      Float32Array.from({ length: 2 ** 20 }, (_, i) => (i % 3 === 0 ? Number.NaN : i / 7)),
    ));

  test.skipIf(!hasRedis)(`are the same through a queue${hasRedis ? "" : ": no redis-server here"}`, async () => {
    await using redis = await startRedis();
    await using front = await store.serve("exact", { queue: redis.url, role: "front" });
    await using _worker = await store.serve("exact", { queue: redis.url, role: "worker" });
    await roundTrip(front, floats);
  });

  test("leave arrays inside JSON values as lists", async () => {
    const { bytes } = await binaryAnswer(await post(server, path, ...request(floats, { binary_data_output: true })));
    const textOf = (name: string) => Buffer.from(bytes.get(name)?.subarray(4) ?? []).toString();
    expect([textOf("boxes"), textOf("maybe")]).toEqual(['[{"corner":[0.5,2]}]', "[0.5,2]"]);
  });

  test("are data URIs in the prediction", async () => {
    const { body } = await binaryAnswer(await post(server, path, ...request(floats, { binary_data_output: true })));
    const { outputs } = await server.client.end(body.id);
    const base64 = (data: ArrayBufferView) => Buffer.from(bytesOf(data)).toString("base64");
    expect(outputs).toEqual([
      {
        floats: `data:application/octet-stream;shape=6;base64,${base64(floats)}`,
        wholes: `data:application/octet-stream;shape=3;base64,${base64(wholes)}`,
        boxes: [{ corner: [0.5, 2] }],
        maybe: [0.5, 2],
      },
    ]);
  });
});

describe("an answer in JSON", () => {
  test("has every digit of an int64", async () => {
    const text = await (await post(server, path, ...request(Float32Array.of(1), {}))).text();
    expect(text).toContain('"data":[9007199254740993,-9223372036854775808,9223372036854775807]');
  });

  test("is refused if it would contain NaN, with a way to ask for bytes", async () => {
    expect(await refusalOf(await post(server, path, ...request(floats, {})))).toEqual([
      400,
      "output 'floats', row 0: element 0 is NaN, which JSON cannot express as a number; ask for its bytes with binary_data",
    ]);
  });

  test("is possible if the client asks only for other outputs", async () => {
    const inputs = [inputOf("floats", "FP32", floats), inputOf("wholes", "INT64", wholes)];
    const [body, headers] = binaryBody({ inputs, outputs: [{ name: "maybe" }] }, bytesOf(floats), bytesOf(wholes));
    const { outputs } = (await (await post(server, path, body, headers)).json()) as InferBody;
    expect(outputs).toEqual([{ name: "maybe", datatype: "BYTES", shape: [1], data: ["[0.5,2]"] }]);
  });
});
