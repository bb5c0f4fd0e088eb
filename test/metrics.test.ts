/**
 * GET /metrics follows Prometheus' conventions, has every series from the first scrape on, and counts reasons and
 * causes.
 */
import { describe, expect, test } from "bun:test";
import {
  batchCauses,
  failureReasons,
  refusals,
  restartCauses,
  routeOf,
  stages,
  unreadyReasons,
} from "../src/base/labels.ts";
import { Metrics } from "../src/server/metrics/metrics.ts";
import { prometheusText } from "../src/server/metrics/prometheus-text.ts";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["lab"], "lab");

async function growth(
  series: string,
  task: () => Promise<unknown>,
  { client }: Pick<SharedServer, "client"> = server,
): Promise<number> {
  const before = await client.metric(series);
  await task();
  return (await client.metric(series)) - before;
}

describe("the text", () => {
  test("has each family once, after its HELP and TYPE, with the samples of its type", async () => {
    const text = await server.client.text("/metrics");
    const types = new Map<string, string>();
    for (const block of text.trim().split("\n\n")) {
      const [help = "", type = "", ...samples] = block.split("\n");
      const name = /^# HELP (\S+) \S.+$/.exec(help)?.[1] ?? "";
      const kind = new RegExp(`^# TYPE ${name} (counter|gauge|histogram)$`).exec(type)?.[1] ?? "";
      expect([name, types.has(name), kind === ""]).toEqual([name, false, false]);
      types.set(name, kind);
      const ends = kind === "histogram" ? "(_bucket|_sum|_count)" : "";
      const sample = new RegExp(`^${name}${ends}(\\{([a-z_]+="[^"\\n]*",?)+\\})? (\\d+(\\.\\d+)?(e[-+]\\d+)?)$`);
      expect(samples.filter((line) => !sample.test(line))).toEqual([]);
      expect(new Set(samples.map((line) => line.slice(0, line.lastIndexOf(" ")))).size).toBe(samples.length);
    }
    expect(types.size).toBeGreaterThan(30);
    for (const [name, kind] of types) {
      expect([name, name.endsWith("_total")]).toEqual([name, kind === "counter"]);
      expect(name).not.toMatch(/_(ms|milliseconds|mb|kb|count|sum|bucket)$/);
      expect(name).toMatch(/^(sconce|process)_/);
    }
  });

  test("has every reason, cause, stage and outcome from the start, with 0", async () => {
    const text = prometheusText(new Metrics().counters());
    const expected = [
      ...failureReasons.flatMap((reason) => [
        `sconce_predictions_total{status="failed",reason="${reason}"} 0`,
        `sconce_items_total{status="failed",reason="${reason}"} 0`,
      ]),
      ...Object.entries(refusals).map(
        ([cause, code]) => `sconce_requests_rejected_total{code="${code}",cause="${cause}"} 0`,
      ),
      ...batchCauses.map((cause) => `sconce_batches_total{cause="${cause}"} 0`),
      ...restartCauses.map((reason) => `sconce_engine_restarts_total{reason="${reason}"} 0`),
      ...stages.map((stage) => `sconce_stage_seconds_count{stage="${stage}"} 0`),
      'sconce_predictions_total{status="success"} 0',
      'sconce_http_requests_total{route="/predictions",code="200"} 0',
    ];
    const lines = new Set(text.split("\n"));
    expect(expected.filter((line) => !lines.has(line))).toEqual([]);
  });

  test("describes the model, the build and the limits", async () => {
    const text = await server.client.text("/metrics");
    expect(text).toMatch(/^sconce_build_info\{version="[^"]+",torch="\d[^"]+",device="cpu"\} 1$/m);
    expect(text).toMatch(
      /^sconce_model_info\{model="lab",repository="lab",tag="[0-9a-f]{12}",digest="sha256:[0-9a-f]{64}"\} 1$/m,
    );
    expect(await server.client.metric("sconce_batch_limit_items")).toBe(4);
    expect(await server.client.metric("sconce_queue_limit_items")).toBe(100_000);
    expect(await server.client.metric("sconce_prediction_limit_seconds")).toBe(600);
    const resident = await server.client.metric('process_resident_memory_bytes{process="front-1"}');
    expect(resident).toBeWithin(10 * 2 ** 20, 2 ** 30);
    expect(await server.client.metric('process_cpu_seconds_total{process="front-1"}')).toBeGreaterThan(0);
  });
});

describe("a failed prediction", () => {
  const failed = (reason: string) => `sconce_predictions_total{status="failed",reason="${reason}"}`;

  test.each([
    ["model", [{ x: 1, fail: "preprocess" }], {}],
    ["model", [{ x: 1, fail: "output" }], {}],
    ["model", [{ x: 1, steps: -1 }], {}],
  ])("is counted with the reason %s, and so are its inputs", async (reason, inputs, headers) => {
    const items = `sconce_items_total{status="failed",reason="${reason}"}`;
    let grown = 0;
    const task = () => server.client.predict(inputs, headers);
    expect(
      await growth(failed(reason), async () => {
        grown = await growth(items, task);
      }),
    ).toBe(1);
    expect(grown).toBe(1);
  });

  test("that timed out or was canceled is counted as such, with its unfinished inputs", async () => {
    await using gate = hold();
    const late = [{ x: 1 }, { x: 1, before: gate.url("late") }];
    // The first input can end within the time limit; the second waits for its file.
    const timedOut = () => server.client.predict(late, { "Cancel-After": "0.5" });
    expect(await growth('sconce_items_total{status="failed",reason="timeout"}', timedOut)).toBe(1);
    expect(await growth(failed("timeout"), timedOut)).toBe(1);
    const canceled = async () => {
      const { prediction_id: id } = await server.client.create(late);
      await server.client.cancel(id);
    };
    expect(await growth(failed("canceled"), canceled)).toBe(1);
  });

  test("with too much output is counted as such", async () => {
    await using small = await server.beside("lab", { maxResultBytes: 4 });
    expect(await growth(failed("size"), () => small.client.predict([{ x: 1 }]), small)).toBe(1);
  });
});

describe("a refused request", () => {
  const refused = (code: number, cause: string) => `sconce_requests_rejected_total{code="${code}",cause="${cause}"}`;

  test.each([
    [400, "json", "{", {}],
    [400, "encoding", "[]", { "Content-Encoding": "gzip" }],
    [400, "header", "[]", { "Cancel-After": "soon" }],
    [415, "type", "[]", { "Content-Type": "application/xml" }],
    [422, "inputs", "[]", {}],
  ])("with %d is counted with the cause %s", async (code, cause, body, headers) => {
    expect(await growth(refused(code, cause), () => server.client.post(body, headers))).toBe(1);
  });

  test("that does not fit in memory is counted with the exceeded limit", async () => {
    await using full = await server.beside("lab", { maxQueuedItems: 1, maxQueuedBytes: 100 });
    await using heavy = await server.beside("lab", { maxQueuedBytes: 100 });
    await using narrow = await server.beside("lab", { maxMemory: 1000 });
    await using gate = hold();
    await full.client.create([{ x: 1, before: gate.url("a") }]);
    expect(await growth(refused(429, "queue"), () => full.client.post([{ x: 2 }]), full)).toBe(1);
    await heavy.client.create([{ x: 1, before: gate.url("a") }]);
    const large = [{ x: 1, note: { text: "n".repeat(100) } }];
    expect(await growth(refused(429, "bytes"), () => heavy.client.post(large), heavy)).toBe(1);
    await narrow.client.create([{ x: 1, before: gate.url("a") }]);
    const heavier = [{ x: 1, note: { text: "n".repeat(250) } }];
    expect(await growth(refused(429, "memory"), () => narrow.client.post(heavier), narrow)).toBe(1);
  });
});

test("requests are counted by route and status; ids in their paths make no series", async () => {
  const series = (route: string, code: number) => `sconce_http_requests_total{route="${route}",code="${code}"}`;
  expect(await growth(series("/predictions", 200), () => server.client.predict([{ x: 1 }]))).toBe(1);
  expect(await growth(series("/predictions/{id}", 404), () => server.client.fetch("/predictions/0abc"))).toBe(1);
  expect(await growth(series("/demo/{id}/cancel", 405), () => server.client.fetch("/demo/a/cancel"))).toBe(1);
  expect(await growth(series("other", 404), () => server.client.fetch("/nothing/at/all"))).toBe(1);
  expect(["/predictions/a/b", "/docs/assets/x/y", "/", "/constructor"].map(routeOf)).toEqual([
    "other",
    "/docs",
    "/",
    "other",
  ]);
});

test("answers are timed by route, and routes without a request have no series", async () => {
  const metrics = new Metrics();
  metrics.answered("/predictions", 200, 20);
  metrics.answered("/predictions", 429, 2);
  const lines = prometheusText(metrics.counters())
    .split("\n")
    .filter((line) => line.startsWith("sconce_http_request_seconds"));
  expect(lines).toHaveLength(19);
  for (const [le, count] of [
    ["0.001", 0],
    ["0.0025", 1],
    ["0.01", 1],
    ["0.025", 2],
    ["+Inf", 2],
  ])
    expect(lines).toContain(`sconce_http_request_seconds_bucket{le="${le}",route="/predictions"} ${count}`);
  expect(lines).toContain('sconce_http_request_seconds_sum{route="/predictions"} 0.022');
  const timed = 'sconce_http_request_seconds_count{route="/predictions"}';
  expect(await growth(timed, () => server.client.predict([{ x: 1 }]))).toBe(1);
});

test("the reason of a server that is not ready is a gauge", async () => {
  await using fresh = await server.beside("lab");
  const text = await fresh.client.text("/metrics");
  const lines = text.split("\n").filter((line) => line.startsWith("sconce_unready"));
  expect(lines).toEqual(unreadyReasons.map((reason) => `sconce_unready{model="lab",reason="${reason}"} 0`));
  await using gate = hold();
  await fresh.client.create([{ x: 1, before: gate.url("a") }]);
  await gate.arrived("a");
  const stopped = fresh.stop();
  await until(async () => (await fresh.client.metric('sconce_unready{reason="draining"}')) !== 0);
  gate.release("a");
  await stopped;
});

describe("an input", () => {
  test("is timed once in each stage", async () => {
    await using fresh = await server.beside("lab");
    await fresh.client.predict([{ x: 1 }]);
    const counts = await Promise.all(
      stages.map((stage) => fresh.client.metric(`sconce_stage_seconds_count{stage="${stage}"}`)),
    );
    // The input has no file, so the stages `fetch` and `preprocess_wait` are not timed.
    expect(Object.fromEntries(stages.map((stage, i) => [stage, counts[i]]))).toEqual({
      ...Object.fromEntries(stages.map((stage) => [stage, 1])),
      fetch: 0,
      preprocess_wait: 0,
    });
    expect(await fresh.client.metric('sconce_batches_total{cause="idle"}')).toBe(1);
  });

  test("waits until its forward pass, with its age in the metrics, and then runs", async () => {
    await using gate = hold();
    await using fresh = await server.beside("lab");
    const metric = (name: string) => fresh.client.metric(name);
    expect(await metric("sconce_oldest_queued_item_age_seconds")).toBe(0);
    const waiting = await fresh.client.create([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    expect([await metric("sconce_queued_items"), await metric("sconce_running_items")]).toEqual([1, 0]);
    expect(await metric("sconce_oldest_queued_item_age_seconds")).toBeGreaterThan(0);
    const running = await fresh.client.create([{ x: 0, steps: 1000 }]);
    await fresh.client.until(running.prediction_id, ({ status }) => status === "running");
    expect([await metric("sconce_queued_items"), await metric("sconce_running_items")]).toEqual([1, 1]);
    await fresh.client.cancel(running.prediction_id);
    await fresh.client.cancel(waiting.prediction_id);
    expect([await metric("sconce_queued_items"), await metric("sconce_running_items")]).toEqual([0, 0]);
    expect(await metric("sconce_oldest_queued_item_age_seconds")).toBe(0);
  });
});
