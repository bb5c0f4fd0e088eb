/** `sconce top` and `sconce bench` against real servers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { chart } from "../../src/cli/commands/bench/chart.ts";
import { offer, saturate } from "../../src/cli/commands/bench/offered-load.ts";
import { figuresOf } from "../../src/cli/commands/top/figures.ts";
import { quantileBetween, Samples } from "../../src/cli/commands/top/samples.ts";
import { linesOf } from "../../src/cli/commands/top/view.ts";
import { cli } from "../helpers/cli.ts";
import { startOnTerminal } from "../helpers/interactive-cli.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";
import { tempDir } from "../helpers/temp-dir.ts";

let store: TestStore;
let server: TestServer;
beforeAll(async () => {
  store = await storeWith("parts");
  server = await store.serve("parts");
});
afterAll(async () => {
  await server.stop();
  await store[Symbol.asyncDispose]();
});

const loadSchema = z.object({
  offered: z.number(),
  answered: z.number(),
  p50Ms: z.number(),
  outcomes: z.record(z.string(), z.number()),
});
const benchSchema = z.object({
  url: z.string(),
  model: z.object({ name: z.string() }),
  capacity: loadSchema.optional(),
  loads: z.array(loadSchema),
});

describe("bench", () => {
  const quick = ["--seconds", "0.2", "--connections", "2"];

  test("sends requests at the given rates, and prints the rates of answers as JSON", async () => {
    const { code, stdout } = await cli(["bench", server.url.href, ...quick, "--rates", "50,100", "--json"]);
    expect(code).toBe(0);
    const { model, capacity, loads } = benchSchema.parse(JSON.parse(stdout));
    expect(model.name).toBe("parts");
    expect(capacity?.outcomes).toEqual({ success: expect.any(Number) });
    expect(loads.map((load) => load.offered)).toEqual([50, 100]);
    for (const { outcomes, p50Ms } of loads) {
      expect(Object.keys(outcomes)).toEqual(["success"]);
      expect(p50Ms).toBeGreaterThan(0);
    }
  });

  test("measures no capacity if only rates are given", async () => {
    const { stdout, stderr } = await cli(["bench", server.url.href, "--seconds", "0.2", "--rates", "50"]);
    expect(stdout).toMatch(/OFFERED\/S +SENT\/S/);
    expect(stdout).toMatch(/^ *50 /m);
    expect(stdout + stderr).not.toContain("busy");
  });

  test("prints a table and a chart", async () => {
    const { stdout } = await cli(["bench", server.url.href, ...quick, "--rates", "50"]);
    expect(stdout).toContain("OFFERED/S");
    expect(stdout).toMatch(/2 busy +[\d.]+/);
    expect(stdout).toContain("▪ p99, • p50");
  });

  test("names the problem of inputs that the server refuses, and of a model that it does not have", async () => {
    await using dir = await tempDir();
    await Bun.write(dir.join("inputs.json"), '[{"y": 1}]');
    const refused = await cli(["bench", server.url.href, ...quick, "--input", dir.join("inputs.json")]);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/POST http.*\/predictions was answered with 422: .*\/0\/x/),
    });
    const missing = await cli(["bench", new URL("/models/other", server.url).href]);
    expect(missing).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("/models/other/ was answered with 404: there is"),
    });
  });

  test("ends with an error when the server stops", async () => {
    const own = await store.serve("parts");
    const { port } = own.url;
    // The proxy stops after some requests, so that the stop comes while a load runs.
    let asked = 0;
    await using proxy = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        const { pathname, search } = new URL(request.url);
        if (pathname === "/predictions" && ++asked === 120) void proxy.stop(true);
        return fetch(`http://127.0.0.1:${port}${pathname}${search}`, request);
      },
    });
    const args = [
      "bench",
      proxy.url.href,
      "--seconds",
      "0.2",
      "--connections",
      "1",
      "--rates",
      "200,200,200,200,200,200",
    ];
    const { code, stderr } = await cli(args);
    await own.stop();
    expect(code).toBe(1);
    expect(stderr).toContain("does not answer: nothing listens on this port");
  });

  test("names the problem if the server does not answer, or is not sconce", async () => {
    await using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    expect(await cli(["bench", "http://127.0.0.1:9"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("http://127.0.0.1:9 does not answer"),
    });
    expect(await cli(["bench", other.url.href])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("did not answer as a sconce server"),
    });
    expect(await cli(["bench", "ftp://x"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('"ftp://x" is not the URL of a server'),
    });
  });
});

describe("a load at a fixed rate", () => {
  test("does not wait for answers; latency counts from the moment at which a request was due", async () => {
    const gate = Promise.withResolvers<void>();
    let asked = 0;
    // The first ten requests get no answer until all ten have come.
    const ask = async () => {
      asked += 1;
      if (asked === 10) gate.resolve();
      await gate.promise;
      return "success";
    };
    const { outcomes, maxMs, p50Ms } = await offer(ask, { rate: 2000, seconds: 0.2, maxOpen: 1000, graceMs: 60_000 });
    expect(outcomes.success).toBe(asked);
    expect(asked).toBeGreaterThan(10);
    expect(maxMs).toBeGreaterThan(p50Ms);
  });

  test("counts outcomes, and the requests that it did not send because too many were open", async () => {
    const ask = (signal: AbortSignal) =>
      new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("429")));
    const { outcomes, answered, p50Ms } = await offer(ask, { rate: 1000, seconds: 0.1, maxOpen: 5, graceMs: 1 });
    expect(outcomes).toEqual({ "429": 5, "not sent": expect.any(Number) });
    expect([answered, p50Ms]).toEqual([0, Number.NaN]);
  });

  test("aborts requests without an answer at its end", async () => {
    const ask = (signal: AbortSignal) =>
      new Promise<string>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
    const { outcomes } = await offer(ask, { rate: 500, seconds: 0.05, maxOpen: 100, graceMs: 1 });
    expect(Object.keys(outcomes)).toEqual(["no answer"]);
  });

  test("over busy connections waits for their answers", async () => {
    let [open, most] = [0, 0];
    const ask = async () => {
      most = Math.max(most, ++open);
      await Bun.sleep(1);
      open -= 1;
      return "success";
    };
    await saturate(ask, { connections: 3, seconds: 0.05, graceMs: 1000 });
    expect(most).toBe(3);
  });
});

test("a chart has latencies on a logarithmic axis", () => {
  const lines = chart(
    [
      {
        mark: "x",
        name: "p50",
        points: [
          [1, 1],
          [2, 10],
          [4, 100],
        ],
      },
    ],
    {
      width: 5,
      height: 3,
      xName: "rate",
      yName: "ms",
      formatX: String,
      formatY: (y) => y.toFixed(0),
    },
  );
  expect(lines).toEqual(["    ms: x p50", "100 ┤    x", " 10 ┤  x", "  1 ┤ x", "    └─────", "     0   4  rate"]);
});

describe("top", () => {
  const figures = async (...args: string[]) =>
    JSON.parse((await cli(["top", server.url.href, "--once", "--json", "--interval", "0.3", ...args])).stdout);

  test("prints rates and latencies of one interval as JSON", async () => {
    let isOver = false;
    const load = (async () => {
      while (!isOver) await server.client.predict([{ x: 1 }, { x: 2 }]);
    })();
    const read = await figures();
    isOver = true;
    await load;
    const { succeeded } = read.predictions;
    expect(succeeded).toBeGreaterThan(0);
    expect(read.inputs.perSecond).toBeCloseTo(2 * succeeded, 0);
    expect(read).toMatchObject({
      model: expect.stringMatching(/^parts:\w+$/),
      predictions: { failed: 0 },
      latencyMs: { p50: expect.any(Number), p99: expect.any(Number) },
    });
  });

  test("without a terminal it prints the view once", async () => {
    const { code, stdout } = await cli(["top", server.url.href, "--interval", "0.1"]);
    expect(code).toBe(0);
    for (const word of ["requests", "predictions", "latency", "batches", "memory", "PROCESS"])
      expect(stdout).toContain(word);
    expect(stdout).not.toContain("\x1b");
  });
});

test("top on a terminal shows the view until q is pressed", async () => {
  let screen = "";
  const shown = Promise.withResolvers<void>();
  await using child = startOnTerminal(["top", server.url.href, "--interval", "0.1"], (text) => {
    screen += text;
    if (screen.includes("PROCESS")) shown.resolve();
  });
  await shown.promise;
  child.write("q");
  expect(await child.exited).toBe(0);
  expect(screen.startsWith("\x1b[?25l")).toBe(true);
  expect(screen.endsWith("\x1b[?25h")).toBe(true);
});

test("top has the figures of each model of a server with several models", () => {
  const text = (seconds: number) => `sconce_model_info{model="a",repository="a",tag="1"} 1
sconce_model_info{model="b",repository="b",tag="2"} 1
sconce_build_info{version="9",device="cpu"} 1
sconce_predictions_total{model="a",status="success"} ${10 * seconds}
sconce_predictions_total{model="b",status="success"} ${2 * seconds}
sconce_predictions_total{model="b",status="failed",reason="input"} ${seconds}
sconce_prediction_seconds_bucket{model="a",le="1"} ${seconds}
sconce_prediction_seconds_bucket{model="a",le="+Inf"} ${seconds}
sconce_prediction_seconds_bucket{model="b",le="1"} 0
sconce_prediction_seconds_bucket{model="b",le="2"} ${seconds}
sconce_prediction_seconds_bucket{model="b",le="+Inf"} ${seconds}
sconce_batch_limit_items{model="a"} 64
sconce_batch_limit_items{model="b"} 4
sconce_oldest_queued_item_age_seconds{model="a"} 3
sconce_oldest_queued_item_age_seconds{model="b"} 4
sconce_queued_items{model="b"} 7
`;
  const [before, after] = [new Samples(text(1)), new Samples(text(2))];
  const read = figuresOf(before, after);
  const lines = linesOf(read, "http://x");
  const rate = 1000 / (after.atMs - before.atMs);
  expect(read.models).toMatchObject([
    {
      name: "a",
      succeeded: expect.closeTo(10 * rate, 3),
      failed: 0,
      queued: 0,
      latencyMs: { p50: 500 },
      batchLimit: 64,
    },
    { name: "b", succeeded: expect.closeTo(2 * rate, 3), queued: 7, latencyMs: { p50: 1500 }, batchLimit: 4 },
  ]);
  expect(read).toMatchObject({ model: "a:1, b:2", batches: { limit: undefined }, inputs: { oldestS: 4 } });
  expect(lines[0]).toContain("2 models on cpu");
  expect(lines.some((line) => /^b .* 7 .* - of 4$/.test(line))).toBe(true);
});

describe("metrics as text", () => {
  const text = (count: number) => `# HELP a_seconds Times.
# TYPE a_seconds histogram
a_seconds_bucket{le="1"} ${count}
a_seconds_bucket{le="2"} ${3 * count}
a_seconds_bucket{le="+Inf"} ${4 * count}
a_total{path="say \\"hi\\"\\n"} 5
a_total{path="b"} 1e3
`;

  test("are read as numbers, with unescaped labels", () => {
    expect([...new Samples(text(1)).by("a_total", "path")]).toEqual([
      ['say "hi"\n', 5],
      ["b", 1000],
    ]);
  });

  test("give a quantile of the observations between two scrapes, linear within a bucket", () => {
    const [before, after] = [new Samples(text(10)), new Samples(text(20))];
    expect(quantileBetween("a_seconds", 0.5, before, after)).toBe(1.5);
    expect(quantileBetween("a_seconds", 0.25, before, after)).toBe(1);
    expect(quantileBetween("a_seconds", 0.99, before, after)).toBe(2);
    expect(quantileBetween("a_seconds", 0.5, after, after)).toBeNaN();
  });

  test("of a restarted server, whose counters begin at 0 again, give no negative rate", () => {
    const { requests } = figuresOf(new Samples('sconce_http_requests_total{route="/"} 9\n'), new Samples(""));
    expect(requests.perSecond).toBe(0);
  });
});
