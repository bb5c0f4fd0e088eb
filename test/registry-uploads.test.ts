/** Uploads in chunks, to a registry that keeps what it got of a chunk that was cut short, as the distribution spec allows. */
import { describe, expect, test } from "bun:test";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { ModelStore } from "../src/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { pushTo, putModel } from "./helpers/transfer.ts";

type Fault =
  /** The connection ends when so many bytes of the chunk are there, which are kept. */
  | { readonly cutAfter: number }
  /** The chunk is kept, and answered as if it had been there before. */
  | "out of step"
  /** The upload is forgotten. */
  | "forget";

/** What became of it, and how it is asked for. */
interface Uploads extends AsyncDisposable {
  readonly host: string;
  /** Ranges of the chunks that came. */
  readonly chunks: readonly string[];
  /** By digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
  readonly manifests: readonly string[];
}

/** @param faults one for each chunk, in order */
async function uploadServer(options: { faults?: readonly (Fault | undefined)[]; minChunk?: number }): Promise<Uploads> {
  const faults = [...(options.faults ?? [])];
  const sessions = new Map<string, Buffer>();
  const blobs = new Map<string, Buffer>();
  const chunks: string[] = [];
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
    const fault = request.method === "PATCH" ? faults.shift() : undefined;
    if (request.method === "PATCH") chunks.push(request.headers["content-range"] ?? "");
    if (typeof fault === "object") {
      const part = await bodyOf(request, fault.cutAfter);
      sessions.set(id, Buffer.concat([session, part.subarray(0, fault.cutAfter)]));
      request.socket.destroy();
      return;
    }
    const whole = Buffer.concat([session, await bodyOf(request)]);
    if (fault === "forget") {
      sessions.delete(id);
      return void end(404);
    }
    sessions.set(id, whole);
    if (fault === "out of step") return void end(416, state());
    if (request.method === "PATCH") return void end(202, state());
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
    chunks,
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

/** All of it, or the first pieces that have so many bytes together. */
async function bodyOf(request: IncomingMessage, bytes = Infinity): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  // Left early, the body is not destroyed with its connection: what came is not answered yet.
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    pieces.push(piece);
    size += piece.length;
    if (size >= bytes) break;
  }
  return Buffer.concat(pieces);
}

describe("an upload in chunks", () => {
  const chunkBytes = 100_000;

  /** Pushes a model with weights of 250,000 bytes; the config and the code are small and go whole. */
  async function pushed(faults: readonly (Fault | undefined)[], minChunk?: number): Promise<readonly string[]> {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer({ faults, ...(minChunk !== undefined && { minChunk }) });
    await pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { chunkBytes });
    const model = await store.resolve("digits");
    for (const { digest, path } of model.layers) {
      expect(server.blobs.get(digest)?.equals(await Bun.file(path).bytes())).toBe(true);
    }
    expect(server.manifests).toEqual([await Bun.file(store.blobPath(model.digest)).text()]);
    return server.chunks;
  }

  test("sends one after the other", async () => {
    expect(await pushed([])).toEqual(["0-99999", "100000-199999", "200000-249999"]);
  });

  test("takes chunks of the size that the registry asks for, up to the whole at once", async () => {
    expect(await pushed([], 150_000)).toEqual(["0-149999", "150000-249999"]);
    expect(await pushed([], 1_000_000)).toEqual([]);
  });

  test("goes on in the middle of a chunk that was cut short", async () => {
    const [first, second, third] = await pushed([undefined, { cutAfter: 40_000 }]);
    expect([first, second]).toEqual(["0-99999", "100000-199999"]);
    expect(third).toBe("140000-239999");
  });

  test("goes on behind a chunk that the registry has already", async () => {
    expect(await pushed([undefined, "out of step"])).toEqual(["0-99999", "100000-199999", "200000-249999"]);
  });

  test("begins anew when the registry has forgotten it", async () => {
    expect(await pushed([undefined, "forget"])).toEqual([
      "0-99999",
      "100000-199999",
      "0-99999",
      "100000-199999",
      "200000-249999",
    ]);
  });

  test("is given up when it gets nowhere", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer({ faults: Array.from({ length: 20 }, () => "forget" as const) });
    const message = await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { chunkBytes }));
    expect(message).toContain("registry_unavailable: ");
    expect(message).toContain("(tried 5 times)");
    expect(server.manifests).toEqual([]);
  });

  test("of a damaged file is told with what the registry says of it", async () => {
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
