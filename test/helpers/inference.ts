/** Requests and answers of the Open Inference Protocol, in JSON and in binary, for the model of tensor-model.ts. */
import { expect } from "bun:test";
import type { TestServer } from "./server.ts";
import { bytesOf } from "./tensors.ts";

export interface GivenTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly data?: readonly unknown[];
  readonly parameters?: Readonly<Record<string, unknown>>;
}

export interface AnsweredTensor extends GivenTensor {
  readonly parameters?: { readonly binary_data_size: number };
}

export interface InferBody {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly outputs: readonly AnsweredTensor[];
}

export const inferPath = "/v2/models/lab/tensors/infer";
export const post = (
  server: TestServer,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) => server.client.fetch(path, { method: "POST", body, headers });

export async function refusalOf(response: Response): Promise<[status: number, error: string]> {
  expect(response.headers.get("content-type")).toBe("application/json");
  const body = (await response.json()) as { readonly error: string };
  expect(Object.keys(body)).toEqual(["error"]);
  return [response.status, body.error];
}

/** Body and headers of a request in binary form: the JSON, then the bytes of the tensors. */
export function binaryBody(
  request: object,
  ...parts: readonly Uint8Array[]
): [Uint8Array<ArrayBuffer>, Record<string, string>] {
  const head = Buffer.from(JSON.stringify(request));
  return [new Uint8Array(Buffer.concat([head, ...parts])), { "Inference-Header-Content-Length": String(head.length) }];
}

export async function binaryAnswer(response: Response): Promise<{ body: InferBody; bytes: Map<string, Uint8Array> }> {
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

/** The binary form of a BYTES tensor: each text follows its length in 4 bytes. */
export function elements(...texts: readonly string[]): Buffer {
  return Buffer.concat(
    texts.flatMap((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(Buffer.byteLength(text));
      return [length, Buffer.from(text)];
    }),
  );
}

/** Two rows for each input of the model, in JSON and in binary form. */
export const columns: readonly (readonly [
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

export const jsonInputs = columns.map(
  ([name, datatype, dims, data]): GivenTensor => ({ name, datatype, shape: [2, ...dims], data }),
);
export const binaryInputs = columns.map(
  ([name, datatype, dims, , bytes]): GivenTensor => ({
    name,
    datatype,
    shape: [2, ...dims],
    parameters: { binary_data_size: bytes.length },
  }),
);
export const parts = columns.map(([, , , , bytes]) => bytes);

/** A request with all inputs as JSON, one of them changed. */
export const changed = (name: string, change: Partial<GivenTensor>) => ({
  inputs: jsonInputs.map((input) => (input.name === name ? { ...input, ...change } : input)),
});
