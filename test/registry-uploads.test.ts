/** Uploads to a registry that closes connections, discards uploads or stops reading. */
import { describe, expect, test } from "bun:test";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { pushTo, putModel } from "./helpers/transfer.ts";

type Fault =
  /** Closes the connection after this number of bytes of the body. */
  | { readonly cutAfter: number }
  /** Reads this number of bytes of the body, then stops reading. */
  | { readonly stallAfter: number }
  /** Discards the request's body, and answers 416 with a reason. */
  | "refuse"
  /** Discards the upload. */
  | "forget";

interface Uploads extends AsyncDisposable {
  readonly host: string;
  /** Number of requests that sent the weights. */
  readonly sent: number;
  /** Bytes of the received blobs, by digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
  readonly manifests: readonly string[];
}

const smallBytes = 5000;

/** @param given the fault of each request that sends the weights, in order; undefined for none */
async function uploadServer(given: readonly (Fault | undefined)[] = []): Promise<Uploads> {
  const faults = [...given];
  const sessions = new Set<string>();
  const blobs = new Map<string, Buffer>();
  const manifests: string[] = [];
  let sent = 0;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", "http://registry.example.com");
    const end = (status: number, headers: Record<string, string> = {}) => response.writeHead(status, headers).end();
    const refuse = (status: number, code: string, message: string) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ errors: [{ code, message }] }));
    };
    if (request.method === "HEAD") return void end(blobs.has(url.pathname.split("/").at(-1) ?? "") ? 200 : 404);
    if (request.method === "POST") {
      const id = crypto.randomUUID();
      sessions.add(id);
      return void end(202, { Location: `../uploads?id=${id}` });
    }
    if (/manifests/.test(url.pathname)) {
      manifests.push((await bodyOf(request)).toString());
      return void end(201);
    }
    const isOfWeights = Number(request.headers["content-length"] ?? 0) > smallBytes;
    if (isOfWeights) sent += 1;
    const fault = isOfWeights ? faults.shift() : undefined;
    if (fault === "refuse") {
      request.resume();
      return refuse(416, "BLOB_UPLOAD_INVALID", "upload is too large");
    }
    if (typeof fault === "object") {
      await bodyOf(request, "cutAfter" in fault ? fault.cutAfter : fault.stallAfter);
      if ("cutAfter" in fault) request.socket.destroy();
      return;
    }
    const whole = await bodyOf(request);
    if (fault === "forget" || !sessions.delete(url.searchParams.get("id") ?? "")) return void end(404);
    const digest = `sha256:${new Bun.CryptoHasher("sha256").update(whole).digest("hex")}`;
    if (digest !== url.searchParams.get("digest")) {
      return refuse(400, "DIGEST_INVALID", "provided digest did not match");
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
    get sent() {
      return sent;
    },
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
  test.each([
    ["is one request", [], 1],
    ["that is interrupted starts again", [{ cutAfter: 40_000 }, undefined], 2],
    ["starts again if the registry has discarded the upload", ["forget"], 2],
  ] as const)("%s", async (_, faults, requests) => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer(faults);
    await pushTo(store, "digits:v1", `${server.host}/team/digits:v1`);
    const model = await store.resolve("digits");
    for (const { digest, path } of model.layers) {
      expect(server.blobs.get(digest)?.equals(await Bun.file(path).bytes())).toBe(true);
    }
    expect(server.manifests).toEqual([await Bun.file(store.blobPath(model.digest)).text()]);
    expect(server.sent).toBe(requests);
  });

  test("that is refused with 416 several times ends with the registry's reason", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer(Array.from({ length: 20 }, () => "refuse" as const));
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused an upload: 416 BLOB_UPLOAD_INVALID: upload is too large (tried 5 times)`,
    );
    expect(server.manifests).toEqual([]);
  });

  test("is abandoned if it makes no progress", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await uploadServer(Array.from({ length: 20 }, () => "forget" as const));
    const message = await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`));
    expect(message).toContain("registry_refused: ");
    expect(message).toContain("(tried 5 times)");
    expect(server.manifests).toEqual([]);
  });

  test("whose body the registry stops reading is abandoned, whatever its size", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 30_000_000);
    await using server = await uploadServer(Array.from({ length: 20 }, () => ({ stallAfter: 1 })));
    const pushing = pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { silenceMs: 300 });
    expect(await failure(pushing)).toBe(
      `registry_unavailable: ${server.host} has sent nothing for too long (tried 5 times)`,
    );
    expect(server.sent).toBe(5);
  });

  test("of a damaged file is reported with the registry's error", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 50_000);
    const { path, size } = (await store.resolve("digits")).layer("digits.pt");
    await Bun.write(path, new Uint8Array(size));
    await using server = await uploadServer();
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused a request for team/digits: 400 DIGEST_INVALID: provided digest did not match`,
    );
  });
});
