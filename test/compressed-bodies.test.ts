/** Compressed request bodies are decompressed, within limits of size and memory. */
import { describe, expect, test } from "bun:test";
import * as zlib from "node:zlib";
import { DECODER_BYTES, readBody } from "../src/http/body-reader.ts";
import { Uploads } from "../src/http/uploads.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { type PredictionBody, problemOf } from "./helpers/client.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const encodings: [string, (bytes: Uint8Array) => Uint8Array<ArrayBuffer>][] = [
  ["gzip", zlib.gzipSync],
  ["deflate", zlib.deflateSync],
  ["br", (bytes) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } })],
  ["zstd", zlib.zstdCompressSync],
];

const server = new SharedServer(["lab"], "lab", { maxBodyBytes: 2 ** 20 });

describe.each(encodings)("a body in %s", (encoding, encode) => {
  const send = (body: Uint8Array<ArrayBuffer>) =>
    server.client.post(body, { "Content-Encoding": encoding, Prefer: "wait" });

  test.each([1, 400_000])("is decompressed (its text has %d characters)", async (length) => {
    const text = JSON.stringify([{ x: 1, note: { text: "n".repeat(length) } }]);
    const record = (await (await send(encode(Buffer.from(text)))).json()) as PredictionBody;
    expect(record.outputs).toMatchObject([{ y: 3 }]);
  });

  test("that is a decompression bomb is refused with 413, and never fully decompressed", async () => {
    const bomb = encode(new Uint8Array(32 * 2 ** 20).fill(32));
    const memory = new MemoryAccount({ maxBytes: 2 ** 30 });
    const limits = { maxBytes: 2 ** 20, memory, uploads: new Uploads() };
    const headers = { "Content-Type": "application/json", "Content-Encoding": encoding };
    const taken: number[] = [];
    const take = memory.count.bind(memory);
    memory.count = (part, bytes) => {
      taken.push(bytes);
      take(part, bytes);
    };
    const request = new Request("http://x/", { method: "POST", headers, body: bomb });
    const refused: unknown = await readBody(request, limits).catch((error: unknown) => error);
    expect(refused).toMatchObject({ problem: { code: "body_too_large" } });
    expect(memory.used).toBe(0);
    expect(taken.filter((bytes) => bytes > 0).reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(
      3 * 2 ** 20 + DECODER_BYTES,
    );
    expect(await problemOf(await send(bomb))).toMatchObject({ status: 413 });
  });

  test("is decompressed with a decoder that counts as memory until the body is complete", async () => {
    const whole = encode(crypto.getRandomValues(new Uint8Array(4000)));
    const memory = new MemoryAccount();
    const headers = { "Content-Type": "application/json", "Content-Encoding": encoding };
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const request = new Request("http://x/", { method: "POST", headers, body: readable });
    const reading = readBody(request, { maxBytes: 2 ** 20, memory, uploads: new Uploads() });
    await writer.write(whole.subarray(0, 1100));
    await writer.write(whole.subarray(1100));
    expect(memory.used).toBeGreaterThanOrEqual(DECODER_BYTES);
    await writer.close();
    expect((await reading).charge.bytes).toBe(3 * 4000);
    expect(memory.used).toBe(3 * 4000);
  });

  test("that is truncated or invalid is refused with 400", async () => {
    const whole = encode(Buffer.from(JSON.stringify([{ x: 1 }])));
    expect(await problemOf(await send(whole.slice(0, -9)))).toMatchObject({ status: 400 });
    expect(await problemOf(await send(new Uint8Array(whole).fill(7)))).toMatchObject({
      status: 400,
      type: "urn:sconce:problem:body_unreadable",
    });
  });
});
