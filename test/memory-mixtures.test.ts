/** With random clients and failures, the server releases all memory that it has charged. */
import { expect, test } from "bun:test";
import { connect } from "node:net";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { seeded } from "./helpers/loads.ts";
import { rawServer } from "./helpers/raw-server.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab", "picture"));

/** Sends one request, and reads, cancels or abandons it at random. */
async function sendOne(server: TestServer, inputs: readonly unknown[], random: (n: number) => number): Promise<void> {
  const { client, url } = server;
  const path = random(4) === 0 ? "/demo" : "/predictions";
  const body = JSON.stringify(inputs);
  const post = (init: RequestInit & { headers?: Record<string, string> } = {}) =>
    client.fetch(path, {
      method: "POST",
      body,
      ...init,
      headers: { "Content-Type": "application/json", "Cancel-After": "0.3", ...init.headers },
    });
  const way = random(7);
  if (way === 0) {
    await (await post({ headers: { Prefer: "wait" } })).text();
  } else if (way === 1) {
    const response = await post();
    await response.text();
    const location = response.headers.get("location");
    if (location !== null) await (await client.fetch(`${location}/cancel`, { method: "POST" })).text();
  } else if (way === 2) {
    const leaving = new AbortController();
    const answer = post({ headers: { Prefer: "wait" }, signal: leaving.signal }).catch(() => undefined);
    await (await client.fetch("/health/live")).text();
    leaving.abort();
    await answer;
  } else if (way === 3) {
    await (await post({ body: body.slice(0, -1) })).text();
  } else if (way === 4) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const socket = connect({ host: url.hostname, port: Number(url.port) });
    socket.on("error", () => resolve());
    const length = random(2) === 0 ? `Content-Length: ${2 * body.length}` : "Transfer-Encoding: chunked";
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
    socket.once("connect", () => socket.write(`${head}ff\r\n${body.slice(0, 20)}`, () => resolve()));
    await promise;
    await (await client.fetch("/health/live")).text();
    socket.destroy();
  } else if (way === 5) {
    // Sends the body in chunks, without a Content-Length.
    await (await post({ body: new Blob([body]).stream(), headers: { Prefer: "wait" } })).text();
  } else {
    await (await post({ headers: { "Content-Encoding": "gzip" } })).text();
  }
}

/** Sends two hundred requests, several at a time, and checks that afterwards only retained results hold memory. */
async function expectAllGivenBack(server: TestServer, inputOf: (random: (n: number) => number) => unknown) {
  const next = seeded(12);
  const random = (n: number) => Math.floor(n * next());
  let left = 200;
  const worker = async () => {
    while (left-- > 0)
      await sendOne(
        server,
        Array.from({ length: 1 + random(12) }, () => inputOf(random)),
        random,
      );
  };
  await Promise.all(Array.from({ length: 12 }, worker));
  const read = async () => {
    const text = await (await server.client.fetch("/metrics")).text();
    return Object.fromEntries(
      [...text.matchAll(/^sconce_memory_bytes\{part="(\w+)"\} (\S+)$/gm)].map((m) => [m[1], m[2]]),
    );
  };
  await until(async () => (await server.client.metric("sconce_predictions_active")) === 0);
  // The server notices closed connections only after a while, and then ends their work.
  const isGivenBack = ([part, bytes]: [string, unknown]) => part === "results" || bytes === "0";
  await until(async () => Object.entries(await read()).every(isGivenBack));
  expect((await read()).results).toBe(String(await server.client.metric("sconce_retained_bytes")));
}

test("after inputs whose model code fails, is slow, or does not end in time, no memory stays charged", async () => {
  await using server = await store.serve("lab", { maxMemory: 60_000 });
  await using gate = hold();
  gate.release("soon");
  const inputs = [
    () => ({ x: 1 }),
    () => ({ x: 1, steps: -1 }),
    () => ({ x: 1, fail: "preprocess" }),
    () => ({ x: 1, fail: "postprocess" }),
    () => ({ x: 1, fail: "output" }),
    () => ({ x: 1, before: gate.url("soon") }),
    () => ({ x: 1, after: gate.url("soon") }),
    () => ({ x: 1, before: gate.url("later") }),
    () => ({ x: "wrong" }),
    () => ({ x: 1, note: { text: "n".repeat(3000) } }),
  ];
  await expectAllGivenBack(server, (random) => inputs[random(random(3) === 0 ? inputs.length : 2)]?.());
});

test("after files that arrive, are broken, are too large, or never arrive, no memory stays charged", async () => {
  const png = Buffer.from(await Bun.file(`${import.meta.dir}/models/picture/white.png`).bytes());
  await using files = await rawServer((socket, request) => {
    const way = Number(/^GET \/(\d)/.exec(request)?.[1]);
    const length = `Content-Length: ${way === 5 ? 200_000 : png.length}`;
    const head = `HTTP/1.1 ${way === 4 ? "404 Not Found" : "200 OK"}\r\nContent-Type: image/png\r\n`;
    if (way === 0) return;
    if (way === 1) socket.write(`${head}${length}\r\n\r\nbroken`);
    else if (way === 2) socket.end(`${head}${length}\r\n\r\nbroken`);
    else if (way === 3) socket.end(Buffer.concat([Buffer.from(`${head}Connection: close\r\n\r\n`), png]));
    else socket.write(Buffer.concat([Buffer.from(`${head}${length}\r\n\r\n`), png]));
  });
  await using server = await store.serve("picture", {
    maxMemory: 200_000,
    allowPrivateUrls: true,
    fetchTimeout: 0.1,
    maxFetches: 4,
  });
  const data = `data:image/png;base64,${png.toBase64()}`;
  await expectAllGivenBack(server, (random) => {
    const way = random(10);
    return { image: way < 2 ? data : `http://127.0.0.1:${files.port}/${way}` };
  });
});
