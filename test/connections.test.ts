/**
 * Silent connections: the server closes them in the end, and stops quickly despite them. A blocked main thread:
 * liveness is still answered.
 */
import { describe, expect, test } from "bun:test";
import { clientOf } from "./helpers/cli.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { post, wire } from "./helpers/wire.ts";

const store = fixture(() => storeWith("lab"));

describe.concurrent("a connection that is silent is closed", () => {
  test("also after an answer that the server delayed", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { idleTimeout: 1 });
    using silent = wire(server.url);
    silent.write(post(`[{"x": 1, "before": "${gate.url("a")}"}]`, { prefer: "Prefer: wait\r\n" }));
    await gate.arrived("a");
    gate.release("a");
    await silent.received('"status":"success"');
    expect(await silent.closed).toStartWith("HTTP/1.1 200 ");
  });
});

test("hundreds of connections that are silent, or stop within a head or body, delay no other client", async () => {
  await using server = await store.serve("lab");
  using held = new DisposableStack();
  const parts = ["", "POST /predictions HTTP/1.1\r\nHost: localhost\r\nX-A: ", post('[{"x": 1', { length: 10 })];
  for (let i = 0; i < 300; i++) held.use(wire(server.url)).write(parts[i % parts.length] ?? "");
  for (let i = 0; i < 20; i++) expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
});

describe.concurrent("SIGTERM while a client has sent half of its body", () => {
  test.each([
    ["that says how long it is", post('[{"x": 1', { length: 1000 })],
    [
      "that comes in chunks",
      'POST /demo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n[{"x": 1\r\n',
    ],
  ])("(%s) does not keep a stopping server from exiting with 0 after its accepted work", async (_, half) => {
    await using gate = hold();
    await using server = store.start(["lab"]);
    const { url } = await clientOf(server);
    using stuck = wire(url);
    using waiting = wire(url);
    stuck.write(half);
    waiting.write(post(`[{"x": 1, "before": "${gate.url("a")}"}]`, { prefer: "Prefer: wait\r\n" }));
    await gate.arrived("a");
    server.kill("SIGTERM");
    await server.line("Stopping");
    gate.release("a");
    await waiting.received('"status":"success"');
    expect(await server.exited).toBe(0);
    expect(await stuck.closed).not.toContain("HTTP/1.1 200");
  });

  test("answers 503 if the rest of the body arrives in time", async () => {
    await using gate = hold();
    await using server = store.start(["lab"]);
    const { url } = await clientOf(server);
    using late = wire(url);
    using waiting = wire(url);
    late.write(post('[{"x": 1', { length: 10 }));
    waiting.write(post(`[{"x": 1, "before": "${gate.url("a")}"}]`, { prefer: "Prefer: wait\r\n" }));
    await gate.arrived("a");
    server.kill("SIGTERM");
    await until(async () => (await fetch(new URL("/health/ready", url))).status === 503);
    late.write("}]");
    await late.received("urn:sconce:problem:not_ready");
    gate.release("a");
    await waiting.received('"status":"success"');
    expect(await server.exited).toBe(0);
    expect(await late.closed).toStartWith("HTTP/1.1 503 ");
  });
});
