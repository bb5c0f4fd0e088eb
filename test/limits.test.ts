/** Limits of a server: unfinished work, durations, and retained results. */
import { describe, expect, test } from "bun:test";
import type { ProblemBody } from "./helpers/client.ts";
import { problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { post, wire } from "./helpers/wire.ts";

const store = fixture(() => storeWith("lab", "picture"));

describe("batches", () => {
  test("are shared by waiting predictions, up to the maximum size", async () => {
    await using server = await store.serve("lab");
    const blocker = await server.client.create([{ x: 0, steps: 500 }]);
    await server.client.until(blocker.prediction_id, ({ status }) => status === "running");
    const xs = [1, 2, 3, 4, 5, 6];
    const created = await Promise.all(xs.map((x) => server.client.create([{ x }])));
    const ends = await Promise.all(created.map(({ prediction_id }) => server.client.end(prediction_id)));
    expect(ends.map(({ outputs }) => outputs?.[0]?.y)).toEqual(xs.map((x) => 2 * x + 1));
    expect(ends.map(({ outputs }) => outputs?.[0]?.together).sort()).toEqual([2, 2, 4, 4, 4, 4]);
  });

  test("have the size that the operator sets", async () => {
    await using server = await store.serve("lab", { batchSize: 16 });
    expect(await server.client.json("/")).toMatchObject({ batch_size: 16 });
    // Inputs become ready while this batch runs, so the next batch is full.
    const blocker = await server.client.create([{ x: 0, steps: 500 }]);
    await server.client.until(blocker.prediction_id, ({ status }) => status === "running");
    const { outputs } = await server.client.predict(Array.from({ length: 64 }, () => ({ x: 1 })));
    expect(Math.max(...(outputs ?? []).map(({ together }) => Number(together)))).toBe(16);
  });

  test("do not let a large prediction starve a small one", async () => {
    await using server = await store.serve("lab");
    const large = await server.client.create(Array.from({ length: 10_000 }, () => ({ x: 1, steps: 1 })));
    expect((await server.client.predict([{ x: 2 }])).outputs?.[0]?.y).toBe(5);
    expect((await server.client.read(large.prediction_id)).status).toBe("running");
    await server.client.cancel(large.prediction_id);
  });
});

describe("a full queue", () => {
  test("gives 429 with Retry-After and accepts no part of the request; the server continues", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { maxQueuedItems: 3 });
    const first = await server.client.create([{ x: 1, before: gate.url("a") }, { x: 2 }]);
    await gate.arrived("a");
    const response = await server.client.post([{ x: 3 }, { x: 4 }]);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await problemOf(response)).toMatchObject({ status: 429, type: "urn:sconce:problem:queue_full" });
    expect(await server.client.metric("sconce_predictions_active")).toBe(1);
    // The queue has space for a smaller request.
    expect((await server.client.predict([{ x: 5 }])).outputs?.[0]?.y).toBe(11);
    gate.release("a");
    expect((await server.client.end(first.prediction_id)).status).toBe("success");
    expect((await server.client.predict([{ x: 3 }, { x: 4 }])).status).toBe("success");
  });

  test("gives 429 before the body has arrived", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { maxQueuedItems: 1 });
    await server.client.create([{ x: 1, before: gate.url("a") }]);
    using unfinished = wire(server.url);
    unfinished.write(post("[", { length: 1000 }));
    await unfinished.received("HTTP/1.1 429");
    gate.release("a");
  });

  test("of bytes gives 429, too", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { maxQueuedBytes: 200 });
    await server.client.create([{ x: 1, before: gate.url("a") }]);
    const large = [{ x: 1, note: { text: "n".repeat(200) } }];
    expect((await server.client.refused(large)).status).toBe(429);
    gate.release("a");
    await until(async () => (await server.client.metric("sconce_predictions_active")) === 0);
    expect((await server.client.predict(large)).status).toBe("success");
  });

  test("gives 422 to a request that is larger than the queue, because a retry would be useless", async () => {
    await using server = await store.serve("lab", { maxQueuedItems: 3 });
    const problem = await server.client.refused([{ x: 1 }, { x: 2 }, { x: 3 }, { x: 4 }]);
    expect(problem.status).toBe(422);
    expect(problem.detail).toContain("at most 3 inputs");
  });
});

describe("the time limit", () => {
  test("of the server fails unfinished inputs, and runs no more of them", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { timeout: 0.2 });
    const body = await server.client.predict([{ x: 1 }, { x: 2, before: gate.url("a") }]);
    expect(body).toMatchObject({ status: "failed", error_message: "Timed out after 0.2 s" });
    expect(body.partial_outputs).toEqual([{ y: 3, together: 1 }, null]);
    gate.release("a");
    expect((await server.client.predict([{ x: 3 }])).status).toBe("success");
    expect(await server.client.metric("sconce_batch_size_sum")).toBe(2);
  });

  test("can be shorter with Cancel-After, and ends predictions in the order of their limits", async () => {
    await using gate = hold();
    await using server = await store.serve("lab");
    const before = gate.url("a");
    const [longest, later] = await Promise.all(
      ["9999999", "0.3"].map((limit) => server.client.create([{ x: 1, before }], { "Cancel-After": limit })),
    );
    const body = await server.client.predict([{ x: 2, before }], { "Cancel-After": "0.1" });
    expect(body).toMatchObject({ status: "failed", error_message: expect.stringMatching(/ 0\.1 s$/) });
    expect(await server.client.end(later?.prediction_id ?? "")).toMatchObject({
      error_message: expect.stringMatching(/ 0\.3 s$/),
    });
    expect((await server.client.read(longest?.prediction_id ?? "")).status).not.toBe("failed");
    gate.release("a");
  });

  test("cannot be longer with Cancel-After", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { timeout: 0.1 });
    const body = await server.client.predict([{ x: 2, before: gate.url("a") }], { "Cancel-After": "100" });
    expect(body.error_message).toEndWith(" 0.1 s");
  });

  test("ends a running prediction although its input waits for a batch", async () => {
    await using server = await store.serve("lab");
    const blocker = await server.client.create([{ x: 0, steps: 2000 }]);
    await server.client.until(blocker.prediction_id, ({ status }) => status === "running");
    const body = await server.client.predict([{ x: 1 }], { "Cancel-After": "0.05" });
    expect(body).toMatchObject({ status: "failed", error_message: expect.stringMatching(/ 0\.05 s$/) });
    expect((await server.client.read(blocker.prediction_id)).status).toBe("running");
    await server.client.cancel(blocker.prediction_id);
  });

  test("that is no number of seconds in the range of Cancel-After is refused with 400", async () => {
    await using server = await store.serve("lab");
    for (const value of ["0", "0.000", "-1", "soon", "1e3", "", "5, 6", "Infinity", "0.0001", "1000000000", "0x1"]) {
      const problem = await server.client.refused([{ x: 1 }], { "Cancel-After": value });
      expect([value, problem.status, problem.type]).toEqual([value, 400, "urn:sconce:problem:bad_header"]);
    }
  });
});

test("inputs that never become ready release their places when their prediction ends", async () => {
  await using server = await store.serve("lab", { maxFetches: 1 });
  await using gate = hold();
  const stuck = [{ x: 1, before: gate.url("a") }];
  const canceled = await server.client.create(stuck);
  await gate.arrived("a");
  await server.client.cancel(canceled.prediction_id);
  expect((await server.client.predict(stuck, { "Cancel-After": "0.1" })).status).toBe("failed");
  expect((await server.client.predict([{ x: 3 }])).status).toBe("success");
});

test("hanging files of any number of predictions do not delay another", async () => {
  await using server = await store.serve("lab", { maxFetches: 4 });
  await using gate = hold();
  const hanging = Array.from({ length: 20 }, (_, x) => ({ x, before: gate.url("never") }));
  const stuck = await Promise.all([1, 2, 3, 4].map(() => server.client.create(hanging)));
  await gate.arrived("never");
  const quick = [{ x: 1, before: gate.url("soon") }];
  gate.release("soon");
  expect((await server.client.predict(quick)).status).toBe("success");
  for (const { prediction_id: id } of stuck) expect((await server.client.read(id)).status).toBe("pending");
});

test("a request that would wait too long is refused at once with a time to retry; a request that polls is accepted", async () => {
  await using server = await store.serve("lab", { timeout: 600 });
  const created = await Promise.all(Array.from({ length: 200 }, (_, x) => server.client.create([{ x, steps: 400 }])));
  // Until the server has learned how long a prediction takes, it accepts every request.
  let response: Response;
  do response = await server.client.post([{ x: 1 }], { Prefer: "wait=1" });
  while (response.ok);
  expect(response.status).toBe(429);
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect((await response.json()) as ProblemBody).toMatchObject({ detail: expect.stringContaining("too long") });
  expect(await server.client.metric('sconce_requests_rejected_total{code="429",cause="time"}')).toBe(1);
  const polled = await server.client.create([{ x: 1 }]);
  expect((await server.client.refused([{ x: 1 }], { "Cancel-After": "1" })).status).toBe(429);
  for (const { prediction_id: id } of [...created, polled]) await server.client.cancel(id);
  expect((await server.client.predict([{ x: 1 }], { Prefer: "wait=60" })).status).toBe("success");
});

describe("ended predictions", () => {
  test("are retained for a time", async () => {
    await using server = await store.serve("lab", { retainAge: 0.05 });
    const { prediction_id: id } = await server.client.predict([{ x: 1 }]);
    await until(async () => (await server.client.status(`/predictions/${id}`)) !== 200);
    expect(await server.client.status(`/predictions/${id}`)).toBe(404);
  });

  test("that have not ended are always retained, and clients that wait get the others", async () => {
    await using gate = hold();
    await using server = await store.serve("lab", { retainAge: 0 });
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
    const ended = await server.client.predict([{ x: 1 }]);
    expect(ended.outputs?.[0]?.y).toBe(3);
    expect(await server.client.status(`/predictions/${ended.prediction_id}`)).toBe(404);
    expect((await server.client.read(id)).status).toBe("pending");
    gate.release("a");
  });
});
