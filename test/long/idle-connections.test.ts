/** A busy connection stays open past the idle timeout. A connection whose body arrives byte by byte is closed. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { connect } from "node:net";
import { fixture } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { storeWith } from "../helpers/server.ts";
import { post, wire } from "../helpers/wire.ts";

const store = fixture(() => storeWith("lab", "greedy"));

test("a busy connection stays open past the idle timeout", async () => {
  await using server = await store.serve("lab", { idleTimeout: 1 });
  using busy = wire(server.url);
  using silent = wire(server.url);
  const request = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  silent.write(request);
  const timer = setInterval(() => busy.write(request), 100);
  await silent.closed;
  clearInterval(timer);
  busy.write("GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  expect(await busy.closed).toContain("HTTP/1.1 404 ");
});

test.each(["application/json", "text/event-stream"])(
  "a client that pauses while it reads a large answer gets all of it (%s)",
  async (type) => {
    await using server = await store.serve("greedy", { idleTimeout: 1 });
    const length = 20_000_000;
    const { prediction_id: id } = await server.client.predict([{ length }]);
    const reader = connect({ host: server.url.hostname, port: Number(server.url.port) });
    using _ = { [Symbol.dispose]: () => reader.destroy() };
    reader.write(`GET /predictions/${id} HTTP/1.1\r\nHost: localhost\r\nAccept: ${type}\r\nConnection: close\r\n\r\n`);
    await once(reader, "readable");
    // The idle timeout closes two other connections, one after the other.
    for (let i = 0; i < 2; i++) {
      using silent = wire(server.url);
      silent.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
      await silent.closed;
    }
    let bytes = 0;
    for await (const chunk of reader) bytes += chunk.length;
    expect(bytes).toBeGreaterThan(length);
  },
);

test("a connection with a waiting request stays open, for GET and HEAD", async () => {
  await using gate = hold();
  await using server = await store.serve("lab", { idleTimeout: 1 });
  const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
  using wires = new DisposableStack();
  const waiting = ["GET", "HEAD"].map((method) => {
    const one = wires.use(wire(server.url));
    one.write(`${method} /predictions/${id} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait\r\nConnection: close\r\n\r\n`);
    return one;
  });
  await server.client.read(id);
  // This connection gets its answer at once, and is then idle, so the idle timeout closes it.
  const silent = wires.use(wire(server.url));
  silent.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await silent.closed;
  gate.release("a");
  for (const { closed } of waiting) expect(await closed).toStartWith("HTTP/1.1 200 ");
});

describe.concurrent("a connection whose body arrives byte by byte", () => {
  test.each([
    ["that says how long it is", post("", { length: 100_000 }), " "],
    [
      "that comes in chunks",
      "POST /demo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
      "1\r\n \r\n",
    ],
  ])("(%s) is closed although it sends bytes; others are served", async (_, head, piece) => {
    await using server = await store.serve("lab", { idleTimeout: 1 });
    using slow = wire(server.url);
    slow.write(head);
    const timer = setInterval(() => slow.write(piece), 100);
    expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
    expect(await slow.closed).not.toContain("HTTP/1.1 200");
    clearInterval(timer);
  });
});
