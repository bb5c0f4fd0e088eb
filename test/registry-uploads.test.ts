/** Uploads to a registry that keeps the received part of an interrupted request, which the distribution spec allows. */
import { describe, expect, test } from "bun:test";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { pushTo, putModel } from "./helpers/transfer.ts";

type Fault =
  /** Closes the connection after this number of bytes of the body, and keeps the bytes. */
  | { readonly cutAfter: number }
  /** Reads this number of bytes of the body, then stops reading. */
  | { readonly stallAfter: number }
  /** Keeps the chunk, but answers 416 with the end of the kept bytes, as if the chunk began at a wrong position. */
  | "out of step"
  /** Discards the request's body, and answers 416 with a reason. */
  | "refuse"
  /** Discards the upload. */
  | "forget";

interface Uploads extends AsyncDisposable {
  readonly host: string;
  /** Method and Content-Range of each request that sent a part of the weights. */
  readonly sent: readonly string[];
  /** Bytes of the received blobs, by digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
  readonly manifests: readonly string[];
}

interface UploadServerOptions {
  /** The fault of each request that sends a part of the weights, in order; undefined for none. */
  readonly faults?: readonly (Fault | undefined)[];
  readonly minChunk?: number;
  /** Largest chunk: a larger one is refused with 416, as GHCR does. */
  readonly maxChunk?: number;
}

const smallBytes = 5000;

async function uploadServer(options: UploadServerOptions): Promise<Uploads> {
  const faults = [...(options.faults ?? [])];
  const sessions = new Map<string, Buffer>();
  const blobs = new Map<string, Buffer>();
  const sent: string[] = [];
  const manifests: string[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", "http://registry.example.com");
    const end = (status: number, headers: Record<string, string> = {}) => response.writeHead(status, headers).end();
    const id = url.searchParams.get("id") ?? "";
    const state = (): Record<string, string> => {
      const { length = 0 } = sessions.get(id) ?? [];
      return { Location: `../uploads?id=${id}`, ...(length > 0 && { Range: `0-${length - 1}` }) };
    };
    if (request.method === "HEAD") return void end(blobs.has(url.pathname.split("/").at(-1) ?? "") ? 200 : 404);
    if (request.method === "POST") {
      const fresh = crypto.randomUUID();
      sessions.set(fresh, Buffer.alloc(0));
      const least: Record<string, string> =
        options.minChunk === undefined ? {} : { "OCI-Chunk-Min-Length": String(options.minChunk) };
      return void end(202, { Location: `../uploads?id=${fresh}`, ...least });
    }
    if (request.method === "PUT" && /manifests/.test(url.pathname)) {
      manifests.push((await bodyOf(request)).toString());
      return void end(201);
    }
    const session = sessions.get(id);
    if (session === undefined) return void end(404);
    if (request.method === "GET") return void end(204, state());
    const from = request.headers["content-range"]?.split("-")[0];
    if (from !== undefined && Number(from) !== session.length) return void end(416, state());
    const length = Number(request.headers["content-length"] ?? 0);
    const { method = "" } = request;
    const refuse = () => {
      request.resume();
      response.writeHead(416, { ...state(), "Content-Type": "application/json" });
      response.end('{"errors":[{"code":"BLOB_UPLOAD_INVALID","message":"chunk is too large"}]}');
    };
    if (method === "PATCH" && length > (options.maxChunk ?? Infinity)) {
      sent.push(`PATCH refused`);
      return refuse();
    }
    const isOfWeights = method === "PATCH" || length > smallBytes;
    if (isOfWeights) sent.push(`${method} ${request.headers["content-range"] ?? "whole"}`);
    const fault = isOfWeights ? faults.shift() : undefined;
    if (fault === "refuse") return refuse();
    if (typeof fault === "object" && "cutAfter" in fault) {
      const part = await bodyOf(request, fault.cutAfter);
      sessions.set(id, Buffer.concat([session, part.subarray(0, fault.cutAfter)]));
      request.socket.destroy();
      return;
    }
    if (typeof fault === "object") {
      await bodyOf(request, fault.stallAfter);
      return;
    }
    const whole = Buffer.concat([session, await bodyOf(request)]);
    if (fault === "forget") {
      sessions.delete(id);
      return void end(404);
    }
    sessions.set(id, whole);
    if (fault === "out of step") return void end(416, state());
    if (method === "PATCH") return void end(202, state());
    const digest = `sha256:${new Bun.CryptoHasher("sha256").update(whole).digest("hex")}`;
    if (digest !== url.searchParams.get("digest")) {
      response.writeHead(400, { "Content-Type": "application/json" });
      response.end('{"errors":[{"code":"DIGEST_INVALID","message":"provided digest did not match"}]}');
      return;
    }
    blobs.set(digest, whole);
    end(201);
  }

  const server = createServer((request, response) => void answer(request, response));
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    host: `127.0.0.1:${address.port}`,
    sent,
    blobs,
    manifests,
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}

/** The body of a request, or its beginning with at least `bytes` bytes. */
async function bodyOf(request: IncomingMessage, bytes = Infinity): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  // The loop may end before the body does. The connection stays open, because the request still needs an answer.
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    pieces.push(piece);
    size += piece.length;
    if (size >= bytes) break;
  }
  return Buffer.concat(pieces);
}

describe("an upload", () => {
  const chunkBytes = 100_000;
  const whole = "PUT whole";

  /**
   * Pushes a model whose weights have 250,000 bytes; its config and code are small. @returns the requests that sent
   * the weights
   */
  async function pushed(options: UploadServerOptions): Promise<readonly string[]> {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer(options);
    await pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { chunkBytes });
    const model = await store.resolve("digits");
    for (const { digest, path } of model.layers) {
      expect(server.blobs.get(digest)?.equals(await Bun.file(path).bytes())).toBe(true);
    }
    expect(server.manifests).toEqual([await Bun.file(store.blobPath(model.digest)).text()]);
    return server.sent;
  }

  test("is one request", async () => {
    expect(await pushed({})).toEqual([whole]);
  });

  test("that is interrupted resumes in chunks", async () => {
    const sent = await pushed({ faults: [{ cutAfter: 40_000 }, undefined, { cutAfter: 10_000 }] });
    expect(sent).toEqual([whole, "PATCH 40000-139999", "PATCH 140000-239999", "PUT 150000-249999"]);
  });

  test("resumes in chunks of the size that the registry requires", async () => {
    const cut = { cutAfter: 20_000 };
    expect(await pushed({ faults: [cut], minChunk: 150_000 })).toEqual([
      whole,
      "PATCH 20000-169999",
      "PUT 170000-249999",
    ]);
    expect(await pushed({ faults: [cut], minChunk: 1_000_000 })).toEqual([whole, "PUT 20000-249999"]);
  });

  test("resumes behind a chunk that the registry already has", async () => {
    const sent = await pushed({ faults: [{ cutAfter: 20_000 }, "out of step"] });
    expect(sent).toEqual([whole, "PATCH 20000-119999", "PATCH 120000-219999", "PUT 220000-249999"]);
  });

  test("starts again as one request if the registry refuses chunks", async () => {
    const sent = await pushed({ faults: [{ cutAfter: 20_000 }], maxChunk: 50_000 });
    expect(sent).toEqual([whole, "PATCH refused", whole]);
  });

  test("starts again if the registry has discarded the upload", async () => {
    const chunks = ["PATCH 0-99999", "PATCH 100000-199999", "PUT 200000-249999"];
    expect(await pushed({ faults: ["forget"] })).toEqual([whole, ...chunks]);
  });

  test("that is refused with 416 several times ends with the registry's reason", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer({ faults: Array.from({ length: 20 }, () => "refuse" as const) });
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { chunkBytes }))).toBe(
      `registry_refused: ${server.host} refused a part of an upload: 416 BLOB_UPLOAD_INVALID: chunk is too large (tried 5 times)`,
    );
    expect(server.manifests).toEqual([]);
  });

  test("is abandoned if it makes no progress", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer({ faults: Array.from({ length: 20 }, () => "forget" as const) });
    const message = await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { chunkBytes }));
    expect(message).toContain("registry_refused: ");
    expect(message).toContain("(tried 5 times)");
    expect(server.manifests).toEqual([]);
  });

  test("whose body the registry stops reading is abandoned, whatever its size", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 30_000_000);
    await using server = await uploadServer({ faults: Array.from({ length: 20 }, () => ({ stallAfter: 1 })) });
    const pushing = pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { silenceMs: 300 });
    expect(await failure(pushing)).toBe(
      `registry_unavailable: ${server.host} has sent nothing for too long (tried 5 times)`,
    );
    expect(server.sent.length).toBe(5);
  });

  test("of a damaged file is reported with the registry's error", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 50_000);
    const { path, size } = (await store.resolve("digits")).layer("digits.pt");
    await Bun.write(path, new Uint8Array(size));
    await using server = await uploadServer({});
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused a request for team/digits: 400 DIGEST_INVALID: provided digest did not match`,
    );
  });
});
