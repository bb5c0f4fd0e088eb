/** Spans that the server exports by OTLP, if OpenTelemetry's standard variables are set. */
import { describe, expect, test } from "bun:test";
import { telemetrySettings } from "../src/server/telemetry/settings.ts";
import { clientOf } from "./helpers/cli.ts";
import { collector, type Span } from "./helpers/collector.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { storeWith } from "./helpers/server.ts";

const variables = {
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_BSP_SCHEDULE_DELAY: "20",
};

const store = fixture(async () =>
  (await storeWith("parts")).starting(["parts", "--fronts", "1", "--store", "memory"], variables),
);
const collected = fixture(collector);
const server = fixture(() =>
  store.start(["--access-log"], {
    OTEL_EXPORTER_OTLP_ENDPOINT: collected.url,
    OTEL_EXPORTER_OTLP_HEADERS: "x-team=vision",
  }),
);
const client = fixture(() => clientOf(server));

const parent = (traceId: string, flags = "01") => `00-${traceId}-00f067aa0ba902b7-${flags}`;
const newTrace = () => crypto.randomUUID().replaceAll("-", "");
/** Resolves with the spans of a trace once spans with all these names have arrived. */
const traceOf = async (id: string, ...names: string[]): Promise<Span[]> => {
  const own = (spans: readonly Span[]) => spans.filter(({ traceId }) => traceId === id);
  return own(await collected.until((spans) => names.every((name) => own(spans).some((span) => span.name === name))));
};
const named = (spans: readonly Span[], name: string) => {
  const found = spans.find((span) => span.name === name);
  if (found === undefined) throw new Error(`there is no span ${name}`);
  return found;
};

test("a request, its prediction and the stages of its inputs are spans below the client's span", async () => {
  const trace = newTrace();
  const headers = { traceparent: parent(trace), tracestate: "vendor=1" };
  const { prediction_id: id, model } = await client.predict([{ x: 1 }, { x: 2 }], headers);
  const spans = await traceOf(trace, "POST /predictions", "prediction", "encode");
  const request = named(spans, "POST /predictions");
  expect(request).toMatchObject({
    kind: 2,
    parentSpanId: "00f067aa0ba902b7",
    traceState: "vendor=1",
    attributes: { "http.request.method": "POST", "http.route": "/predictions", "http.response.status_code": 200 },
  });
  const prediction = named(spans, "prediction");
  expect(prediction).toMatchObject({
    parentSpanId: request.spanId,
    attributes: {
      "sconce.prediction.id": id,
      "sconce.inputs": 2,
      "sconce.model": `${model?.repository}:${model?.tag}`,
    },
  });
  for (const stage of ["preprocess", "queue", "forward", "postprocess", "encode"]) {
    const both = spans.filter(({ name }) => name === stage);
    expect(both.map(({ attributes }) => attributes["sconce.input.index"]).sort()).toEqual([0, 1]);
    for (const span of both) {
      expect(span.parentSpanId).toBe(prediction.spanId);
      expect(span.startTimeUnixNano).toBeLessThanOrEqual(span.endTimeUnixNano);
      expect(span.startTimeUnixNano).toBeGreaterThanOrEqual(request.startTimeUnixNano);
    }
  }
  expect(collected.resource).toMatchObject({ "service.name": "sconce", "service.version": expect.any(String) });
  expect(collected.headers.get("x-team")).toBe("vision");
});

test("the forward pass of an input has the number of inputs in its batch", async () => {
  await using gate = hold();
  const running = await client.create([{ x: 1, rounds: 1, gate: gate.url("") }]);
  await gate.arrived("r0");
  // The only instance is busy, and more inputs wait than fit in a batch, so some share a batch.
  const traces = Array.from({ length: 8 }, newTrace);
  const all = await Promise.all(traces.map((trace) => client.create([{ x: 2 }], { traceparent: parent(trace) })));
  gate.release("r0");
  await Promise.all([running, ...all].map(({ prediction_id: id }) => client.end(id)));
  const spans = (await Promise.all(traces.map((trace) => traceOf(trace, "prediction", "forward")))).flat();
  const sizes = spans.filter(({ name }) => name === "forward").map((span) => span.attributes["sconce.batch.items"]);
  expect(sizes).toHaveLength(8);
  expect(Math.max(...sizes.map(Number))).toBeGreaterThan(1);
});

test("log lines have the ids of the request's span, and a client's mistake is no error of the server", async () => {
  const trace = newTrace();
  await client.post("no JSON", { traceparent: parent(trace) });
  const span = named(await traceOf(trace, "POST /predictions"), "POST /predictions");
  expect(span.attributes["http.response.status_code"]).toBe(400);
  expect(span.status?.code ?? 0).toBe(0);
  expect(await server.line(trace)).toContain(span.spanId);
});

test("a failed prediction has its reason", async () => {
  const trace = newTrace();
  await client.predict([{ x: 1, rounds: 2, fail: "predict" }], { traceparent: parent(trace) });
  const prediction = named(await traceOf(trace, "prediction"), "prediction");
  expect(prediction).toMatchObject({ attributes: { "error.type": "model" }, status: { code: 2 } });
});

test("a trace that the client does not sample has no span, and neither have probes", async () => {
  const [unsampled, probe, last] = [newTrace(), newTrace(), newTrace()];
  await client.predict([{ x: 1 }], { traceparent: parent(unsampled, "00") });
  await client.fetch("/health/ready", { headers: { traceparent: parent(probe) } });
  await client.predict([{ x: 1 }], { traceparent: parent(last) });
  await traceOf(last, "prediction");
  expect(collected.spans.filter(({ traceId }) => [unsampled, probe].includes(traceId))).toEqual([]);
});

test("a server that stops exports its last spans", async () => {
  await using own = collector();
  await using other = store.start([], { OTEL_EXPORTER_OTLP_ENDPOINT: own.url, OTEL_BSP_SCHEDULE_DELAY: "600000" });
  const trace = newTrace();
  await (await clientOf(other)).predict([{ x: 1 }], { traceparent: parent(trace) });
  expect(own.spans).toEqual([]);
  other.kill("SIGTERM");
  expect(await other.exited).toBe(0);
  expect(own.spans.map(({ name }) => name)).toContain("prediction");
});

test("without a reachable collector, predictions run, the log names the failure, and the server stops", async () => {
  await using other = store.start([], { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" });
  expect(await (await clientOf(other)).predict([{ x: 1 }])).toMatchObject({ status: "success" });
  await other.line("OpenTelemetry: ");
  other.kill("SIGTERM");
  expect(await other.exited).toBe(0);
});

describe("variables", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };
  test.each([
    ["nothing", {}, false],
    ["an endpoint", endpoint, true],
    ["an endpoint of spans", { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://localhost:4318/v1/traces" }, true],
    ["an endpoint of metrics", { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://localhost:4318/v1/metrics" }, false],
    ["an exporter without an endpoint", { OTEL_TRACES_EXPORTER: "otlp" }, true],
    ["an exporter that is none", { ...endpoint, OTEL_TRACES_EXPORTER: "none" }, false],
    ["a disabled SDK", { ...endpoint, OTEL_SDK_DISABLED: "true" }, false],
  ])("%s", (_, env, isExported) => {
    expect(telemetrySettings(env) !== undefined).toBe(isExported);
  });

  test.each([
    ["console", false],
    ["grpc", false],
    ["none,console", false],
    ["console, OTLP", true],
  ])("the list of exporters %p exports spans: %p", (exporters, isExported) => {
    expect(telemetrySettings({ ...endpoint, OTEL_TRACES_EXPORTER: exporters }) !== undefined).toBe(isExported);
  });
});
