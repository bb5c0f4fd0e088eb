/** Request ids in answers and log lines, and the log line of each request. */
import { describe, expect, test } from "bun:test";
import { STATUS_HEADER } from "../src/http/other-fronts.ts";
import { RequestContext } from "../src/http/request.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { post, wire } from "./helpers/wire.ts";

const options = ["--access-log", "--log-format", "json", "--log-level", "debug", "--max-memory", "36m"];

const store = fixture(() => storeWith("lab"));
const server = fixture(() => store.start(["lab", ...options]));
const client = fixture(() => clientOf(server));

/** The first log line about a request that contains `part`, parsed. Waits for the line. */
async function lineOf(requestId: string, part: string): Promise<Record<string, unknown>> {
  const isIt = (line: string) => line.includes(`"request_id":"${requestId}"`) && line.includes(part);
  await until(() => server.lines.some(isIt));
  return JSON.parse(server.lines.find(isIt) ?? "");
}

const trace = { id: "4bf92f3577b34da6a3ce929d0e0e4736", span: "00f067aa0ba902b7" };
const traceparent = `00-${trace.id}-${trace.span}-01`;

describe("X-Request-Id", () => {
  test.each([
    ["/predictions", "POST"],
    ["/predictions/0abc", "GET"],
    ["/nothing", "GET"],
    ["/docs", "PUT"],
    ["/docs/assets/a/b", "GET"],
    ["/metrics", "GET"],
    ["/health/ready", "HEAD"],
  ])("is returned from %s (%s) unchanged", async (path, method) => {
    const response = await client.fetch(path, { method, headers: { "X-Request-Id": "my request/7" } });
    expect(response.headers.get("x-request-id")).toBe("my request/7");
  });

  test("is generated for each request without a valid one", async () => {
    const made = await Promise.all(
      [undefined, "a".repeat(129), "é"].map(async (id) => {
        const headers = id === undefined ? {} : { "X-Request-Id": id };
        const response = await client.post([{ x: 1 }], { Prefer: "wait", ...headers });
        return response.headers.get("x-request-id") ?? "";
      }),
    );
    expect(made.filter((id) => !/^[\w-]{16}$/.test(id))).toEqual([]);
    expect(new Set(made).size).toBe(3);
  });
});

describe("traceparent", () => {
  const traceOf = (header: string) => new RequestContext(new Request("http://x", { headers: { traceparent: header } }));

  test("is read if it follows W3C Trace Context", () => {
    expect(traceOf(traceparent)).toMatchObject({ traceId: trace.id, spanId: trace.span });
    expect(traceOf(`01-${trace.id}-${trace.span}-00-more`)).toMatchObject({ traceId: trace.id });
  });

  test.each([
    `ff-${trace.id}-${trace.span}-01`,
    `00-${"0".repeat(32)}-${trace.span}-01`,
    `00-${trace.id}-${"0".repeat(16)}-01`,
    `00-${trace.id.toUpperCase()}-${trace.span}-01`,
    `00-${trace.id}-${trace.span}-01-more`,
    "00-4bf9-00f0-01",
  ])("is ignored if it is %s", (header) => {
    expect(traceOf(header)).toMatchObject({ traceId: undefined, spanId: undefined });
  });
});

describe("the log", () => {
  const headers = (id: string) => ({ "X-Request-Id": id, traceparent });
  const members = (id: string) => ({ request_id: id, trace_id: trace.id, span_id: trace.span });

  test("has a line for each request, with method, path and status", async () => {
    const response = await client.post([{ x: 1 }], { Prefer: "wait", ...headers("access") });
    expect(await lineOf("access", "POST")).toEqual({
      ...members("access"),
      time: expect.any(String),
      level: "info",
      message: expect.stringMatching(/^POST \/predictions 200 in [0-9.]+ ms$/),
      method: "POST",
      path: "/predictions",
      status: 200,
      duration_ms: expect.any(Number),
      front: 1,
      request_bytes: 9,
      client: "127.0.0.1",
      model: expect.stringMatching(/^lab:[0-9a-f]{12}$/),
      prediction_status: "success",
      prediction_id: response.headers.get("location")?.slice("/predictions/".length),
    });
  });

  test("has the status of a failed prediction, which is answered with 200, at each API", async () => {
    const inputs = [{ x: 1, fail: "preprocess" }];
    const failed = await client.predict(inputs, { Prefer: "wait", ...headers("failed") });
    expect(await lineOf("failed", "POST")).toMatchObject({ status: 200, prediction_status: "failed" });
    await client.fetch(`/predictions/${failed.prediction_id}`, { headers: headers("read") });
    expect(await lineOf("read", "GET")).toMatchObject({ status: 200, prediction_status: "failed" });
    const tensors = [
      { name: "x", datatype: "FP64", shape: [1], data: [1] },
      { name: "fail", datatype: "BYTES", shape: [1], data: ["preprocess"] },
    ];
    const body = JSON.stringify({ inputs: tensors });
    await client.fetch("/v2/models/lab/infer", { method: "POST", headers: headers("v2"), body });
    expect(await lineOf("v2", "POST")).toMatchObject({ status: 500, prediction_status: "failed" });
    await client.fetch("/examples", { headers: headers("none") });
    expect(await lineOf("none", "GET")).not.toHaveProperty("prediction_status");
  });

  test("has the status of a prediction, also from another front", async () => {
    await using other = store.start(["lab", "--fronts", "2", "--access-log", "--log-format", "json"]);
    const { url } = await clientOf(other);
    const send = async (name: string, path: string, init: RequestInit = {}) => {
      const headers = { ...init.headers, "X-Request-Id": name, Connection: "close" };
      const answer = await fetch(new URL(path, url), { ...init, headers });
      expect(answer.headers.has(STATUS_HEADER)).toBe(false);
      expect(await other.line(`"request_id":"${name}"`)).toContain('"prediction_status":"success"');
      return answer.headers.get("location") ?? "";
    };
    const headers = { Prefer: "wait", "Content-Type": "application/json" };
    const path = await send("made", "/predictions", { method: "POST", headers, body: '[{"x":1}]' });
    // Each of two fronts answers some requests. A front without the prediction forwards the request to the other.
    for (let i = 0; i < 8; i++) await send(`read-${i}`, path);
  });

  test("has no line that a path can split into two", async () => {
    await client.fetch("/a%0Ab%1B", { headers: headers("broken") });
    expect(await lineOf("broken", "404 in")).toMatchObject({
      path: "/a%0Ab%1B",
      message: expect.stringContaining("GET /a%0Ab%1B 404 in "),
    });
  });

  test("has the path as the client sent it, without the query, and no probes at level info", async () => {
    for (const path of ["/health/live", "/health/ready", "/v2/health/ready", "/v2/models/lab/ready"])
      await client.fetch(path, { headers: headers("probe") });
    await client.fetch("/demo/?key=hidden", { headers: headers("slash") });
    expect(await lineOf("slash", "in ")).toMatchObject({ path: "/demo/", client: "127.0.0.1" });
    expect(server.lines.filter((line) => line.includes('"request_id":"probe"'))).toEqual([]);
    expect(server.lines.filter((line) => line.includes("hidden"))).toEqual([]);
  });

  test("has the request id in failures and timeouts of the request's prediction", async () => {
    await using gate = hold();
    const wrong = await client.predict([{ x: 1, fail: "preprocess" }], headers("wrong"));
    // An earlier failure delays the warning by up to a second. Until then only a line of level `debug` exists.
    expect(await lineOf("wrong", '"level":"warning"')).toMatchObject({
      ...members("wrong"),
      message: expect.stringContaining("no such x"),
      prediction_id: wrong.prediction_id,
    });
    const late = await client.predict([{ x: 1, before: gate.url("a") }], {
      ...headers("late"),
      "Cancel-After": "0.05",
    });
    expect(await lineOf("late", "Timed out after 0.05 s")).toMatchObject({
      ...members("late"),
      level: "warning",
      prediction_id: late.prediction_id,
    });
  });

  test("has a line for a request that was refused for memory", async () => {
    using first = wire(client.url);
    first.write(post("", { length: 4_000_000 }));
    await until(async () => (await client.metric('sconce_memory_bytes{part="bodies"}')) > 0);
    const large = [{ x: 1, note: { text: "n".repeat(2_000_000) } }];
    expect((await client.post(large, headers("refused"))).status).toBe(429);
    expect(await lineOf("refused", "was refused")).toMatchObject({
      ...members("refused"),
      level: "warning",
      message: expect.stringContaining("POST /predictions was refused with 429 (memory): "),
      status: 429,
    });
  });

  test("is JSON in every line if the engine process crashes, including its output", async () => {
    const [engine = Number.NaN] = await inRole(server.pid, "engine");
    process.kill(engine, "SIGSEGV");
    await server.line("is ready again");
    const lines = server.lines.map((line): unknown => JSON.parse(line));
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: "warning",
        message: expect.stringMatching(/^The engine process 1 of lab:\S+ wrote: /),
      }),
    );
  });
});
