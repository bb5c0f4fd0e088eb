/** Unknown paths and methods, and routes other than predictions. */
import { describe, expect, test } from "bun:test";
import { problemOf } from "./helpers/client.ts";
import { hold } from "./helpers/hold.ts";
import { SharedServer } from "./helpers/shared-server.ts";
import { sendRaw } from "./helpers/wire.ts";

const server = new SharedServer(["lab"], "lab");

describe("an unknown path", () => {
  test.each(["/nothing", "/predictions/a/b", "/docs/assets/../../package.json", "/%zz", "/predictions/a/cancel/b"])(
    "(%s) gives 404 and a hint to the docs",
    async (path) => {
      const problem = await problemOf(await server.client.fetch(path));
      expect(problem).toMatchObject({ status: 404, detail: expect.stringContaining("/docs") });
    },
  );

  test("that is known but for a final slash is answered like the known path", async () => {
    expect(await server.client.status("/health/ready/")).toBe(200);
  });
});

test.each([
  ["GET", "/predictions", "POST"],
  ["PUT", "/predictions", "POST"],
  ["OPTIONS", "/predictions", "POST"],
  ["DELETE", "/predictions/abc", "HEAD, GET, PUT"],
  ["POST", "/predictions/abc", "HEAD, GET, PUT"],
  ["GET", "/predictions/abc/cancel", "POST"],
  ["POST", "/", "HEAD, GET"],
  ["PATCH", "/metrics", "HEAD, GET"],
])("a method that a path does not support gives 405 with Allow: %s %s", async (method, path, allow) => {
  const response = await server.client.fetch(path, { method });
  expect(response.headers.get("allow")).toBe(allow);
  expect(await problemOf(response)).toMatchObject({ status: 405 });
});

describe("HEAD", () => {
  test("is answered like GET, without a body", async () => {
    const response = await server.client.fetch("/health/live", { method: "HEAD" });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });

  test.each(["/", "/openapi.json", "/health/ready", "/docs", "/predictions/unknown"])(
    "of %s has the length of GET's body",
    async (path) => {
      const rest = `${path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: same\r\nConnection: close\r\n\r\n`;
      const request = (method: string) => sendRaw(server.url, `${method} ${rest}`);
      const [head, get] = [await request("HEAD"), await request("GET")];
      const [headers = ""] = get.split("\r\n\r\n", 1);
      expect(head).toEndWith("\r\n\r\n");
      expect(linesOf(head)).toEqual(linesOf(headers));
      expect(linesOf(head)).toContainEqual(expect.stringMatching(/^content-length: [1-9]/));
    },
  );

  test("of a prediction has the length of its body", async () => {
    const made = await server.client.post([{ x: 1 }], { Prefer: "wait" });
    const text = await made.text();
    const path = made.headers.get("location");
    const head = await sendRaw(server.url, `HEAD ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    expect(linesOf(head)).toContain(`content-length: ${text.length}`);
  });
});

/** Status line and headers of an answer, sorted, without the date. */
function linesOf(head: string): string[] {
  const lines = head.trim().toLowerCase().split("\r\n");
  return lines.filter((line) => !line.startsWith("date:")).sort();
}

test("GET / describes the model", async () => {
  const response = await server.client.fetch("/");
  expect((await response.json()) as object).toEqual({
    name: "lab",
    tag: expect.stringMatching(/^[0-9a-f]{12}$/),
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    description: "Doubles a number and adds one.",
    batch_size: 4,
    input_schema: expect.objectContaining({ type: "object", required: ["x"], additionalProperties: false }),
    output_schema: expect.objectContaining({ type: "object", required: ["y", "together"] }),
    demo_output_schema: expect.objectContaining({ type: "object" }),
  });
});

describe("health", () => {
  test("has the states live and ready", async () => {
    expect((await server.client.json("/health/live")) as object).toEqual({ status: "live" });
    expect((await server.client.json("/health/ready")) as object).toEqual({ status: "ready" });
  });

  test.each([
    ["name no host", "HTTP/1.0"],
    ["name a malformed one", "HTTP/1.1\r\nHost: [::\r\nConnection: close"],
  ])("tells clients, too, that %s", async (_, rest) => {
    expect(await sendRaw(server.url, `GET /health/ready ${rest}\r\n\r\n`)).toContain('{"status":"ready"}');
    expect(await sendRaw(server.url, `HEAD /health/ready ${rest}\r\n\r\n`)).toStartWith("HTTP/1.1 200 ");
  });
});

describe("metrics", () => {
  test("are Prometheus text", async () => {
    const response = await server.client.fetch("/metrics");
    expect(response.headers.get("content-type")).toStartWith("text/plain; version=0.0.4");
  });

  test("count problems by status code and cause", async () => {
    const count = (cause: string) =>
      server.client.metric(`sconce_requests_rejected_total{code="404",cause="${cause}"}`);
    const before = [await count("path"), await count("prediction")];
    await server.client.fetch("/nothing");
    await server.client.fetch("/predictions/unknown");
    expect([await count("path"), await count("prediction")]).toEqual(before.map((counted) => counted + 1));
  });
});

test("a connection that sends nothing is closed, unless it waits for a prediction", async () => {
  await using gate = hold();
  await using strict = await server.beside("lab", { idleTimeout: 1 });
  const waiting = strict.client.predict([{ x: 1, before: gate.url("a") }]);
  await gate.arrived("a");
  const stalled =
    "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[";
  await sendRaw(strict.url, stalled);
  gate.release("a");
  expect((await waiting).status).toBe("success");
}, 120_000);
