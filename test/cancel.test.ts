/**
 * Predictions are canceled before, during and after their run, by a request or because the client closes its
 * connection.
 */
import { describe, expect, test } from "bun:test";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["lab"], "lab");

/** Number of steps of a prediction: enough to cancel it while it runs. */
const longSteps = 1000;

describe("cancelling", () => {
  test("before the run fails the prediction with Canceled, at once", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    const canceled = await server.client.cancel(id);
    expect(canceled).toMatchObject({ prediction_id: id, status: "failed", error_message: "Canceled" });
    expect(canceled).toHaveProperty("finished_at");
    expect(canceled).not.toHaveProperty("started_at");
    gate.release("a");
    expect(await server.client.read(id)).toEqual(canceled);
  });

  test("during the run discards its results", async () => {
    const { prediction_id: id } = await server.client.create([{ x: 1, steps: longSteps }]);
    await server.client.until(id, ({ status }) => status === "running");
    const canceled = await server.client.cancel(id);
    expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
    expect(canceled).toHaveProperty("started_at");
    // Waits for a later prediction, so that the batch of the canceled prediction has ended.
    await server.client.predict([{ x: 2 }]);
    expect(await server.client.read(id)).toEqual(canceled);
  });

  test("after the end changes nothing", async () => {
    const ended = await server.client.predict([{ x: 1 }]);
    expect(await server.client.cancel(ended.prediction_id)).toEqual(ended);
    const failed = await server.client.predict([{ x: 1, fail: "preprocess" }]);
    expect(await server.client.cancel(failed.prediction_id)).toEqual(failed);
  });

  test("keeps the outputs of finished inputs", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1 }, { x: 2, before: gate.url("a") }]);
    await gate.arrived("a");
    await server.client.until(id, ({ status }) => status === "running");
    // Waits for a later prediction, so that the first input has ended.
    await server.client.predict([{ x: 3 }]);
    expect((await server.client.cancel(id)).partial_outputs).toEqual([expect.objectContaining({ y: 3 }), null]);
  });

  test("answers waiting clients", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
    const end = server.client.end(id);
    await gate.arrived("a");
    await server.client.cancel(id);
    expect(await end).toMatchObject({ status: "failed", error_message: "Canceled" });
  });

  test("removes waiting items from the queue at once", async () => {
    await using gate = hold();
    const inputs = Array.from({ length: 50 }, () => ({ x: 1, before: gate.url("a") }));
    const { prediction_id: id } = await server.client.create(inputs);
    expect(await server.client.metric("sconce_queued_items")).toBe(50);
    await server.client.cancel(id);
    expect(await server.client.metric("sconce_queued_items")).toBe(0);
  });

  test("does not change other items of the batch", async () => {
    const blocker = await server.client.create([{ x: 0, steps: longSteps }]);
    await server.client.until(blocker.prediction_id, ({ status }) => status === "running");
    // Both predictions wait while a batch runs, so they share the next batch.
    const [first, second] = await Promise.all([
      server.client.create([{ x: 1, steps: 100 }]),
      server.client.create([{ x: 2 }, { x: 3 }]),
    ]);
    await server.client.until(first.prediction_id, ({ status }) => status === "running");
    await server.client.cancel(first.prediction_id);
    const end = await server.client.end(second.prediction_id);
    expect(end).toMatchObject({
      status: "success",
      outputs: [
        { y: 5, together: 3 },
        { y: 7, together: 3 },
      ],
    });
    expect(await server.client.end(blocker.prediction_id)).toMatchObject({ status: "success" });
  });

  test("an unknown id gives 404", async () => {
    const response = await server.client.fetch("/predictions/AAAAAAAAAAAAAAAA/cancel", { method: "POST" });
    expect(response.status).toBe(404);
  });
});

describe("a client that leaves", () => {
  test("before it knows the id cancels the prediction", async () => {
    await using gate = hold();
    const canceled = await server.client.metric('sconce_predictions_total{status="failed",reason="canceled"}');
    const leaving = new AbortController();
    const answer = server.client.post([{ x: 1, before: gate.url("a") }], { Prefer: "wait" }, leaving.signal);
    await gate.arrived("a");
    expect(await server.client.metric("sconce_predictions_active")).toBe(1);
    leaving.abort();
    await expect(answer).rejects.toThrow();
    await until(async () => (await server.client.metric("sconce_predictions_active")) === 0);
    expect(await server.client.metric('sconce_predictions_total{status="failed",reason="canceled"}')).toBe(
      canceled + 1,
    );
  });

  test("during a GET cancels nothing", async () => {
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
    const leaving = new AbortController();
    const answer = server.client.fetch(`/predictions/${id}`, {
      headers: { Prefer: "wait" },
      signal: leaving.signal,
    });
    await gate.arrived("a");
    leaving.abort();
    await expect(answer).rejects.toThrow();
    gate.release("a");
    expect(await server.client.end(id)).toMatchObject({ status: "success" });
  });
});
