/** An overloaded server whose clients give up after a while. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { problemOf } from "./helpers/client.ts";
import { hold } from "./helpers/hold.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";

let store: TestStore;

beforeAll(async () => {
  store = await storeWith("lab");
});

afterAll(() => store[Symbol.asyncDispose]());

test("once a client has left a full queue, other waiting clients are asked to retry later, and new clients go first", async () => {
  await using gate = hold();
  await using hooks = receiver();
  // An input has tensors of 12 bytes, so at most two inputs are in `preprocess` at once.
  const config = { maxReadyBytes: 20, webhookSecret: [secret], allowPrivateUrls: true };
  await using server = await store.serve("lab", config);
  const { client } = server;
  const polled = [];
  for (let x = 0; x < 8; x++) polled.push(await client.create([{ x, before: gate.url("a") }]));
  const waiting = Array.from({ length: 20 }, () => client.post([{ x: 1 }], { Prefer: "wait" }));
  const told = client.predict([{ x: 1 }], { "Webhook-URL": hooks.url() });
  const refused = Promise.all(waiting);
  let isRefused = false;
  void refused.then(() => {
    isRefused = true;
  });
  // A client that leaves before the queue is full has no effect, so further clients leave until requests are refused.
  const leavers: string[] = [];
  while (!isRefused) {
    const leaving = client.post([{ x: 2 }], { Prefer: "wait" }, AbortSignal.timeout(600));
    leavers.push(
      await leaving.then(
        ({ status }) => String(status),
        ({ name }) => name,
      ),
    );
  }
  const left = leavers.filter((end) => end === "TimeoutError").length;
  expect(left).toBeGreaterThanOrEqual(1);
  for (const response of await refused) {
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(await problemOf(response)).toMatchObject({ status: 429, type: "urn:sconce:problem:queue_full" });
  }
  // The prediction with the webhook was already accepted, so it fails instead of being refused.
  const failed = { status: "failed", error_message: expect.stringContaining("the queue is too long") };
  expect(await told).toMatchObject(failed);
  expect((await hooks.until(1))[0]?.data).toMatchObject(failed);
  // Predictions without a webhook leave no record. They count as refused requests, not as failed predictions.
  expect(await client.metric("sconce_predictions_active")).toBe(polled.length);
  expect(await client.metric('sconce_requests_rejected_total{code="429",cause="time"}')).toBe(
    waiting.length + leavers.length - left,
  );
  expect(await client.metric('sconce_predictions_total{status="failed",reason="canceled"}')).toBe(left);
  const last = client.predict([{ x: 3 }]);
  gate.release("a");
  expect((await last).status).toBe("success");
  for (const { prediction_id: id } of polled) expect((await client.end(id)).status).toBe("success");
});

test("inputs that cannot finish in time do not start", async () => {
  await using gate = hold();
  await using server = await store.serve("lab", { maxReadyBytes: 20 });
  const { client } = server;
  // The server learns from this prediction how long an input takes.
  await client.predict([{ x: 1, steps: 200 }]);
  const { prediction_id: first } = await client.create([
    { x: 1, before: gate.url("a") },
    { x: 2, before: gate.url("a") },
  ]);
  await gate.arrived("a");
  let isBegun = false;
  void gate.arrived("never").then(() => {
    isBegun = true;
  });
  const before = await client.metric("sconce_batch_size_sum");
  const late = await client.create([{ x: 3, before: gate.url("never") }], { "Cancel-After": "0.05" });
  gate.release("a");
  expect(await client.end(late.prediction_id)).toMatchObject({
    status: "failed",
    error_message: "Timed out after 0.05 s",
  });
  expect((await client.end(first)).status).toBe("success");
  expect(await client.metric("sconce_batch_size_sum")).toBe(before + 2);
  expect(isBegun).toBe(false);
});
