/**
 * `--max-memory`: bodies, fetched files and outputs stay within one account of bytes, and leave it when they are no
 * longer needed.
 */
import { describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { problemOf } from "./helpers/client.ts";
import { palettePng } from "./helpers/crafted-pictures.ts";
import { dataUri } from "./helpers/data-uri.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { type RawServer, rawServer } from "./helpers/raw-server.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const png = await Bun.file(`${import.meta.dir}/models/picture/white.png`).bytes();

const store = fixture(() => storeWith("lab", "picture", "shapes", "greedy"));

const held = (server: TestServer, part: string) => server.client.metric(`sconce_memory_bytes{part="${part}"}`);

/** Opens a connection, sends this text, and never reads the answer. */
async function opened(url: URL, text: string): Promise<Socket & Disposable> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  socket.on("error", reject);
  socket.once("connect", () => socket.write(text, () => resolve()));
  socket.pause();
  await promise;
  return Object.assign(socket, { [Symbol.dispose]: () => void socket.destroy() });
}

const upload = (length: string) =>
  `POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;

describe("bodies in transit", () => {
  const large = JSON.stringify([{ x: 1, note: { text: "n".repeat(200_000) } }]);

  test("are charged three times their length from the start; a body that does not fit is refused before it is read", async () => {
    await using server = await store.serve("lab", { maxMemory: 3_600_000 });
    const first = await opened(server.url, upload("Content-Length: 400000"));
    await until(async () => (await held(server, "bodies")) === 1_200_000);
    const response = await server.client.post(large);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await problemOf(response)).toMatchObject({ status: 429, type: "urn:sconce:problem:queue_full" });
    // The server skipped the refused body, so the connection can be used again.
    expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
    first.destroy();
    await until(async () => (await held(server, "bodies")) === 0);
    expect((await server.client.predict(JSON.parse(large))).status).toBe("success");
    expect(await held(server, "bodies")).toBe(0);
  });

  test("without a Content-Length are charged as they grow", async () => {
    await using server = await store.serve("lab", { maxMemory: 3_600_000 });
    using first = await opened(server.url, upload("Content-Length: 400000"));
    await until(async () => (await held(server, "bodies")) === 1_200_000);
    const chunk = `[${" ".repeat(65_534)}`;
    using second = await opened(server.url, `${upload("Transfer-Encoding: chunked")}ffff\r\n${chunk}\r\n`);
    await until(async () => (await held(server, "bodies")) === 1_200_000 + 3 * 65_535);
    second.write(`ffff\r\n${chunk}\r\n`);
    await until(async () => (await held(server, "bodies")) === 1_200_000);
    first.destroy();
    await until(async () => (await held(server, "bodies")) === 0);
  });

  test("of a request that is alone may use the whole memory", async () => {
    await using server = await store.serve("lab", { maxMemory: 3 * large.length });
    expect((await server.client.predict(JSON.parse(large))).status).toBe("success");
    expect(await server.client.metric("sconce_memory_limit_bytes")).toBe(3 * large.length);
    const detail = `a body may have at most ${large.length} bytes (--max-memory)`;
    for (const body of [`${large} `, new Blob([large, " "]).stream()]) {
      expect(await server.client.refused(body)).toMatchObject({ status: 413, detail });
    }
  });
});

describe("fetched files", () => {
  const bytes = 60_000;
  const config = { maxMemory: 300_000, allowPrivateUrls: true } as const;

  /** A server whose pictures have `bytes` bytes. It sends the head of the answer at once, the rest at `release`. */
  async function pictures(): Promise<RawServer & { release(): void }> {
    const released = Promise.withResolvers<void>();
    const body = new Uint8Array(bytes);
    body.set(png);
    const server = await rawServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: ${bytes}\r\n\r\n`);
      void released.promise.then(() => socket.write(body));
    });
    return Object.assign(server, { release: () => released.resolve() });
  }

  test("are charged from their first byte, and wait for memory", async () => {
    await using server = await store.serve("picture", config);
    await using files = await pictures();
    const inputs = Array.from({ length: 6 }, (_, i) => ({ image: `http://127.0.0.1:${files.port}/${i}` }));
    const { prediction_id: id } = await server.client.create(inputs);
    await until(() => files.requests.length === 6);
    await until(async () => (await held(server, "files")) > bytes);
    expect(await held(server, "files")).toBe(2 * bytes);
    files.release();
    expect((await server.client.end(id)).status).toBe("success");
    expect(await held(server, "files")).toBe(0);
  });

  test("that wait for memory are abandoned when their prediction ends", async () => {
    await using server = await store.serve("picture", config);
    await using files = await pictures();
    const inputs = Array.from({ length: 6 }, (_, i) => ({ image: `http://127.0.0.1:${files.port}/${i}` }));
    const { prediction_id: id } = await server.client.create(inputs);
    await until(async () => (await held(server, "files")) === 2 * bytes);
    await server.client.cancel(id);
    expect([await held(server, "files"), await held(server, "bodies")]).toEqual([0, 0]);
  });

  test("of a demo that could never fit are refused at once", async () => {
    await using server = await store.serve("picture", { ...config, maxMemory: 600_000 });
    await using files = await pictures();
    const demo = (count: number) =>
      server.client.demos.predict(Array(count).fill({ image: `http://127.0.0.1:${files.port}/` }));
    expect(await demo(3)).toMatchObject({
      status: "failed",
      error_message: expect.stringContaining(
        "needed together have at least 180000 bytes; this server has room for 150000 (--max-memory)",
      ),
    });
    files.release();
    expect(await demo(2)).toMatchObject({ status: "success" });
    expect(await held(server, "files")).toBe(0);
  });

  test("of inputs that each hold one file and need a second wait without a deadlock, and all succeed", async () => {
    await using server = await store.serve("greedy", { maxMemory: 800_000, allowPrivateUrls: true });
    const inputs = 5;
    const isFirst = (request: string) => request.startsWith("GET /0");
    const firsts = Promise.withResolvers<void>();
    // Four first files fit in memory. The file server sends second files only after requests for all five first files.
    await using files = await rawServer((socket, request) => {
      if (files.requests.filter(isFirst).length === inputs) firsts.resolve();
      const answer = () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 95000\r\n\r\n");
        socket.write(new Uint8Array(95_000));
      };
      if (isFirst(request)) answer();
      else void firsts.promise.then(answer);
    });
    const url = (path: string) => `http://127.0.0.1:${files.port}/${path}`;
    const { status } = await server.client.predict(
      Array.from({ length: inputs }, (_, i) => ({ files: [url(`0/${i}`), url(`1/${i}`)] })),
    );
    expect(status).toBe("success");
    expect(await held(server, "files")).toBe(0);
  });
});

describe("pictures", () => {
  const picture = (side: number) => ({
    image: dataUri(palettePng(side, side)),
  });

  test("that could never fit are refused", async () => {
    await using server = await store.serve("picture", { maxMemory: 1_000_000 });
    const { error_message } = await server.client.predict([picture(200)]);
    expect(error_message).toContain(
      "200 × 200, then 4 × 4 pixels; this server has 350000 for one image (--max-memory)",
    );
  });
});

test("while output rows wait for a slow postprocess, new inputs wait", async () => {
  await using gate = hold();
  const inputs = Array.from({ length: 60 }, () => ({ x: 1, after: gate.url("a") }));
  const body = JSON.stringify(inputs).padEnd(40_000);
  await using server = await store.serve("lab", { maxMemory: (3 * body.length + 120) / 0.55 });
  const id = (await server.client.post(body)).headers.get("location")?.split("/").at(-1) ?? "";
  await gate.arrived("a");
  let most = 0;
  for (let looks = 0; looks < 30; looks++) most = Math.max(most, await held(server, "tensors"));
  gate.release("a");
  // 10 rows of 12 bytes fit in the limit. Batches that were already running add their rows.
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan((60 / 2) * 12);
  expect((await server.client.end(id)).status).toBe("success");
  expect(await held(server, "tensors")).toBe(0);
});

describe("outputs of a prediction that is alone may use memory that would otherwise be reserved", () => {
  test("for rows that an asynchronous postprocess holds", async () => {
    await using server = await store.serve("greedy", { maxMemory: 1_000_000 });
    const input = { rows: 40_000, laterMs: 1, length: 60_000 };
    expect((await server.client.predict([input, input, input])).status).toBe("success");
    expect([await held(server, "tensors"), await held(server, "outputs")]).toEqual([0, 0]);
  });

  test("for files that were fetched for the prediction", async () => {
    await using server = await store.serve("greedy", { maxMemory: 1_000_000, allowPrivateUrls: true });
    await using files = await rawServer((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
      socket.write(new Uint8Array(200_000));
    });
    const input = { files: [`http://127.0.0.1:${files.port}/`], length: 200_000 };
    expect((await server.client.predict([input])).status).toBe("success");
    expect([await held(server, "files"), await held(server, "outputs")]).toEqual([0, 0]);
  });
});

test("slow readers of a large result count as memory until they leave", async () => {
  await using server = await store.serve("shapes");
  const [inputs, rows] = [6, 90_000];
  const input = `{"matrix":[${Array(rows).fill("[1]").join(",")}],"vector":[1.1],"mask":[]}`;
  const body = `[${Array(inputs).fill(input).join(",")}]`;
  const { prediction_id: id } = (await (await server.client.post(body, { Prefer: "wait" })).json()) as {
    prediction_id: string;
  };
  expect(await held(server, "answers")).toBe(0);
  const text = await server.client.text(`/predictions/${id}`);
  expect(JSON.parse(text).outputs.at(-1).product).toHaveLength(rows);
  expect((await server.client.fetch(`/predictions/${id}`, { method: "HEAD" })).status).toBe(200);
  expect(await held(server, "answers")).toBe(0);
  const get = `GET /predictions/${id} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  const readers = await Promise.all(Array.from({ length: 10 }, () => opened(server.url, get)));
  await until(async () => (await held(server, "answers")) === readers.length * text.length);
  for (const reader of readers) reader.destroy();
  await until(async () => (await held(server, "answers")) === 0);
});
