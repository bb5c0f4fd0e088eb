/** Inputs whose file is unreachable or has the wrong type: only that input fails, and with a reason. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import type { Client } from "./helpers/client.ts";
import { hold } from "./helpers/hold.ts";
import { rawServer } from "./helpers/raw-server.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";

const white = Bun.file(fileURLToPath(new URL("./models/picture/white.png", import.meta.url)));
const huge = Bun.file(fileURLToPath(new URL("./data/media/huge.png", import.meta.url)));

let store: TestStore;
/** Server that may fetch files from loopback addresses. */
let server: TestServer;
/** Server with default settings, which refuses to fetch from private addresses. */
let strict: TestServer;
let good: string;

beforeAll(async () => {
  store = await storeWith("picture");
  server = await store.serve("picture", { allowPrivateUrls: true, fetchTimeout: 0.3 });
  strict = await store.serve("picture");
  good = `data:image/png;base64,${(await white.bytes()).toBase64()}`;
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await strict[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

/** Sends an input with this file between two good inputs, whose outputs must be right. @returns why the input failed */
async function faultOf(image: string, client: Client = server.client): Promise<string> {
  const body = await client.predict([{ image: good }, { image }, { image: good }]);
  expect(body.status).toBe("failed");
  expect(body.errors?.map(({ index }) => index)).toEqual([1]);
  expect(body.partial_outputs?.map((output) => output?.mean ?? null)).toEqual([[255, 255, 255], null, [255, 255, 255]]);
  expect((await client.predict([{ image: good }])).status).toBe("success");
  const message = body.errors?.[0]?.message ?? "";
  expect(body.error_message).toContain(message);
  return message;
}

const answer = (head: string, body: string | Uint8Array = "") =>
  rawServer((socket) => {
    socket.write(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n`);
    socket.end(body);
  });

describe("a file", () => {
  test("is fetched", async () => {
    const bytes = await white.bytes();
    await using files = await answer(`200 OK\r\nContent-Type: image/png\r\nContent-Length: ${bytes.length}`, bytes);
    const body = await server.client.predict([{ image: `http://127.0.0.1:${files.port}/white.png` }]);
    expect(body.outputs).toEqual([
      { mean: [255, 255, 255], swatch: expect.stringMatching(/^data:image\/png;base64,/) },
    ]);
  });

  test("on a server that refuses connections fails its input", async () => {
    const files = await answer("200 OK");
    await files[Symbol.asyncDispose]();
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("could not be fetched");
  });

  test("that does not arrive in time fails its input", async () => {
    await using gate = hold();
    expect(await faultOf(gate.url("slow.png"))).toContain("was not there within 0.3 s");
  });

  test("with status 404 fails its input, without the body of the answer", async () => {
    await using files = await answer("404 Not Found", "upstream secret");
    const message = await faultOf(`http://127.0.0.1:${files.port}/a.png?token=query-secret`);
    expect(message).toContain("answered 404");
    expect(message).not.toContain("secret");
  });

  test.each([
    ["a text", "200 OK\r\nContent-Type: image/png\r\nContent-Length: 5", "hello"],
    ["nothing", "200 OK\r\nContent-Type: image/png\r\nContent-Length: 0", ""],
  ])("that is not an image (%s) fails its input", async (_, head, content) => {
    await using files = await answer(head, content);
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("image");
  });

  test("that is shorter than its Content-Length fails its input", async () => {
    const bytes = await white.bytes();
    await using files = await answer(`200 OK\r\nContent-Length: ${bytes.length + 1}`, bytes);
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("broke off before its end");
  });

  test("that is longer than the field's limit fails its input, whatever its Content-Length", async () => {
    await using files = await answer("200 OK\r\nContent-Length: 100001", new Uint8Array(100_001));
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("more than 100000 bytes");
    await using silent = await answer("200 OK", new Uint8Array(100_001));
    expect(await faultOf(`http://127.0.0.1:${silent.port}/a.png`)).toContain("more than 100000 bytes");
  });

  test("with 30,000 × 30,000 pixels in its header fails its input", async () => {
    const bytes = await huge.bytes();
    await using files = await answer(`200 OK\r\nContent-Length: ${bytes.length}`, bytes);
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("30000");
  });

  test("with endless redirects fails its input", async () => {
    await using files = await answer("302 Found\r\nLocation: /again");
    expect(await faultOf(`http://127.0.0.1:${files.port}/`)).toContain("redirects more than 3 times");
  });

  test("with a redirect to a file of this machine fails its input", async () => {
    await using files = await answer("302 Found\r\nLocation: file:///etc/passwd");
    expect(await faultOf(`http://127.0.0.1:${files.port}/`)).toContain("file: URLs are not taken");
  });

  test("in a data URI with a truncated picture fails its input", async () => {
    expect(await faultOf(good.slice(0, 62))).toContain("damaged or cut off");
  });
});

describe("a private address", () => {
  test.each([
    "http://localhost/a.png",
    "http://127.0.0.1/a.png",
    "http://2130706433/a.png",
    "http://0x7f.1/a.png",
    "http://0/a.png",
    "http://[::1]/a.png",
    "http://[::ffff:127.0.0.1]/a.png",
    "http://10.0.0.1/a.png",
    "http://169.254.169.254/latest/meta-data",
    "http://192.168.0.1/a.png",
  ])("(%s) is not fetched", async (url) => {
    expect(await faultOf(url, strict.client)).toContain("has no public address");
  });

  test("gets no connection", async () => {
    await using files = await answer("200 OK");
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`, strict.client)).toContain("has no public address");
    expect(files.connections).toBe(0);
  });
});

describe("a text that is not the URL of a file is refused with 422", () => {
  test.each([
    "white.png",
    "/etc/passwd",
    "file:///etc/passwd",
    "ftp://example.com/a.png",
    "javascript:alert(1)",
    "http:/one-slash",
    "http://",
    "data:image/png;base64",
    "data:image/png;base64,%%%",
    "data:image/png;base64,iVBOR",
    "data:image/png;base64,@@@@",
    "data:no media type;base64,AAAA",
    `data:image/png;base64,${"A".repeat(300_000)}@`,
    "",
  ])("(%s)", async (image) => {
    const problem = await server.client.refused([{ image: good }, { image }]);
    expect(problem.status).toBe(422);
    expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(["/1/image"]);
  });

  test("a number is refused with 422", async () => {
    expect((await server.client.refused([{ image: 1 }])).errors?.[0]?.detail).toContain("received number");
  });
});

describe("a client that leaves during a fetch", () => {
  test("ends the fetch", async () => {
    const asked = Promise.withResolvers<void>();
    await using files = await rawServer(() => asked.resolve());
    await using patient = await store.serve("picture", { allowPrivateUrls: true });
    const leaving = new AbortController();
    const url = `http://127.0.0.1:${files.port}/a.png`;
    const response = patient.client.post([{ image: url }], { Prefer: "wait" }, leaving.signal);
    await asked.promise;
    leaving.abort();
    await expect(response).rejects.toThrow();
    await files.closed();
  });
});
