/** The life of a prediction as its client sees it. */
import { describe, expect, test } from "bun:test";
import { type PredictionBody, problemOf } from "./helpers/client.ts";
import { hold } from "./helpers/hold.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["lab", "shapes"], "lab");

const milliseconds = (time: string | undefined) => Date.parse(time ?? "");

describe("creating a prediction", () => {
  test("is answered at once, with its id and the status pending", async () => {
    await using gate = hold();
    const response = await server.client.post([{ x: 1, before: gate.url("a") }]);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    const body = (await response.json()) as PredictionBody;
    expect(body).toEqual({
      prediction_id: expect.any(String),
      status: "pending",
      model: {
        repository: "lab",
        tag: expect.stringMatching(/^[0-9a-f]{12}$/),
        digest: expect.stringMatching(/^sha256:/),
      },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
  });

  test("returns a Location where the prediction can be read", async () => {
    const response = await server.client.post([{ x: 1 }]);
    const { prediction_id } = (await response.json()) as PredictionBody;
    expect(response.headers.get("location")).toBe(`/predictions/${prediction_id}`);
    expect(await server.client.status(`/predictions/${prediction_id}`)).toBe(200);
  });

  test("returns ids that are short, URL-safe and unique", async () => {
    const predictions = await Promise.all(Array.from({ length: 200 }, () => server.client.create([{ x: 1 }])));
    const ids = predictions.map(({ prediction_id }) => prediction_id);
    // 16 random characters of 6 bits each, after one character for the HTTP process that owns the prediction and four
    // for the second of the creation.
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{21}$/);
    expect(new Set(ids).size).toBe(200);
    // Each random character varies.
    for (let i = 5; i < 21; i++) expect(new Set(ids.map((id) => id[i])).size).toBeGreaterThan(16);
  });
});

describe("Prefer: wait", () => {
  test("answers with the current state after the given number of seconds", async () => {
    await using gate = hold();
    const input = { x: 1, before: gate.url("a") };
    const told: string[] = [];
    const create = async (headers: Readonly<Record<string, string>>) => {
      const body = await server.client.create([input], headers);
      told.push(headers.Prefer ?? "");
      return body;
    };
    // The first request waits for one second. The later request does not wait, so it is answered first.
    const waiting = create({ Prefer: "wait=1" });
    await gate.arrived("a");
    await create({});
    const body = await waiting;
    expect(body.status).toBe("pending");
    expect(told).toEqual(["", "wait=1"]);
    gate.release("a");
    expect((await server.client.end(body.prediction_id)).status).toBe("success");
  });

  test.each([
    ["wait", "wait=60"],
    ["wait=7", "wait=7"],
    ["wait=301", "wait=300"],
    ["return=minimal", null],
    ["wait=0", null],
  ])("with %p answers with the applied wait: %p", async (prefer, applied) => {
    const created = await server.client.post([{ x: 1 }], { Prefer: prefer });
    expect(created.headers.get("preference-applied")).toBe(applied);
    const path = created.headers.get("location") ?? "";
    const read = await server.client.fetch(path, { headers: { Prefer: prefer } });
    expect(read.headers.get("preference-applied")).toBe(applied);
  });
});

describe("reading a prediction", () => {
  test("with Prefer: wait answers at its end", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 4, before: gate.url("a") }]);
    await gate.arrived("a");
    const end = server.client.end(id);
    expect((await server.client.read(id)).status).toBe("pending");
    gate.release("a");
    expect(await end).toMatchObject({ status: "success", outputs: [{ y: 9 }] });
  });

  test("with an unknown id answers 404", async () => {
    const problem = await problemOf(await server.client.fetch("/predictions/AAAAAAAAAAAAAAAA"));
    expect(problem).toMatchObject({ status: 404, type: "urn:sconce:problem:prediction_not_found" });
  });
});

describe("a prediction", () => {
  test("has one output per input, in the order of the inputs", async () => {
    const xs = Array.from({ length: 100 }, (_, i) => i);
    const { outputs } = await server.client.predict(xs.map((x) => ({ x })));
    expect(outputs?.map(({ y }) => y)).toEqual(xs.map((x) => 2 * x + 1));
  });

  test("keeps the order of inputs even if later ones are ready first", async () => {
    await using gate = hold();
    const end = server.client.predict([{ x: 0, before: gate.url("a") }, { x: 1, after: gate.url("b") }, { x: 2 }]);
    await Promise.all([gate.arrived("a"), gate.arrived("b")]);
    gate.release("b");
    gate.release("a");
    expect((await end).outputs?.map(({ y }) => y)).toEqual([1, 3, 5]);
  });

  test("is running from the dispatch of its first item to its end", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a"), after: gate.url("b") }]);
    await gate.arrived("a");
    expect(await server.client.read(id)).not.toHaveProperty("started_at");
    gate.release("a");
    await gate.arrived("b");
    const running = await server.client.read(id);
    expect(running.status).toBe("running");
    expect(running).toHaveProperty("started_at");
    expect(running).not.toHaveProperty("finished_at");
    expect(running).not.toHaveProperty("outputs");
    gate.release("b");
    expect((await server.client.end(id)).status).toBe("success");
  });

  test("has its times of creation, start and end in order", async () => {
    const before = Date.now();
    const { created_at, started_at, finished_at } = await server.client.predict([{ x: 1, steps: 20 }]);
    const times = [before, milliseconds(created_at), milliseconds(started_at), milliseconds(finished_at), Date.now()];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  test("runs items of different sizes, each with its own result", async () => {
    await using shapes = await server.beside("shapes");
    const input = (rows: number, columns: number, set: number) => ({
      matrix: Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => r + c)),
      vector: Array.from({ length: columns }, () => 1),
      mask: Array.from({ length: rows + 1 }, (_, i) => (i < set ? 255 : 0)),
    });
    const { outputs } = await shapes.client.predict([input(2, 3, 1), input(1, 1, 2), input(2, 3, 3), input(3, 2, 0)]);
    expect(outputs).toEqual([
      { product: [3, 6], set: 1 },
      { product: [0], set: 2 },
      { product: [3, 6], set: 3 },
      { product: [1, 3, 5], set: 0 },
    ]);
  });
});

describe("a failed prediction", () => {
  test("names each bad input by index, and keeps the outputs of finished inputs", async () => {
    const failed = await server.client.predict([
      { x: 1 },
      { x: 2, steps: -1 },
      { x: 3, fail: "preprocess" },
      { x: 4 },
      { x: 5, fail: "postprocess" },
      { x: 6, fail: "output" },
    ]);
    expect(failed.status).toBe("failed");
    expect(failed).not.toHaveProperty("outputs");
    expect(failed.errors?.map(({ index }) => index)).toEqual([1, 2, 4, 5]);
    const [forward, preprocess, postprocess, output] = failed.errors?.map(({ message }) => message) ?? [];
    expect(forward).toBe("steps must not be negative");
    expect(preprocess).toBe("the model failed in preprocess");
    expect(postprocess).toBe("the model failed in postprocess");
    expect(output).toContain("output.y");
    expect(failed.partial_outputs?.map((kept) => kept?.y ?? null)).toEqual([3, null, null, 9, null, null]);
    for (const index of [1, 2, 4, 5]) expect(failed.error_message).toContain(`input ${index}: `);
  });

  test("does not affect other predictions in the batch", async () => {
    const [good, bad, too] = await Promise.all([
      server.client.predict([{ x: 1 }, { x: 2 }]),
      server.client.predict([{ x: 3, steps: -1 }]),
      server.client.predict([{ x: 4 }]),
    ]);
    expect(good.outputs?.map(({ y }) => y)).toEqual([3, 5]);
    expect(bad.status).toBe("failed");
    expect(too.outputs?.map(({ y }) => y)).toEqual([9]);
  });
});
