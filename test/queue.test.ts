/** Replicas share predictions through Redis: each replica answers for the predictions of all. */
import { describe, expect, test } from "bun:test";
import { eventsOf } from "./helpers/events.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { hasRedis, startRedis, type TestRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

describe.skipIf(!hasRedis)(`replicas (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  /** `front` answers clients and runs no predictions; `both` answers clients and runs predictions. */

  const redis = fixture(startRedis);
  const store = fixture(() => storeWith("lab", "stage"));
  const front = fixture(() => store.serve("lab", { queue: redis.url, role: "front" }));
  const both = fixture(() => store.serve("lab", { queue: redis.url }));

  test("run each other's predictions, and every replica knows the outcome", async () => {
    const ended = await front.client.predict([{ x: 1 }, { x: 2 }]);
    expect(ended).toMatchObject({ status: "success", outputs: [{ y: 3 }, { y: 5 }] });
    expect(await both.client.read(ended.prediction_id)).toEqual(ended);
    expect(await front.client.read(ended.prediction_id)).toEqual(ended);
  });

  test("start without an error of the queue in the log", async () => {
    for (const { client } of [front, both]) {
      const faults = (await client.text("/metrics")).match(/^sconce_queue_faults_total.*/gm);
      expect(faults?.filter((line) => !line.endsWith(" 0"))).toEqual([]);
    }
  });

  test("create one prediction for one id, on whichever replica it is sent", async () => {
    const id = crypto.randomUUID();
    const items = () => both.client.metric('sconce_predictions_total{status="success"}');
    const before = await items();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? front : both).client.put(id, [{ x: 1 }])),
    );
    expect(await items()).toBe(before + 1);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ prediction_id: id, status: "success" });
    // This body is so large that Redis stores it beside the prediction's record.
    await expect(front.client.put(id, [{ x: 1, note: { text: "n".repeat(100_000) } }])).rejects.toThrow(/^422/);
  });

  test("show running predictions of other replicas, and wait for their end", async () => {
    await using gate = hold();
    const inputs = [1, 2].map((x) => ({ x, before: gate.url(`${x}`) }));
    const { prediction_id: id, status } = await both.client.create(inputs);
    expect(status).toBe("pending");
    gate.release("1");
    await front.client.until(id, (record) => record.status === "running");
    const end = front.client.end(id);
    gate.release("2");
    expect(await end).toMatchObject({ status: "success", outputs: [{ y: 3 }, { y: 5 }] });
  });

  test("run a small prediction soon although a worker has many long ones", async () => {
    const queue = { queue: redis.url, queueName: "long" };
    await using own = await store.serve("lab", { ...queue, role: "front" });
    await using _worker = await store.serve("lab", { ...queue, role: "worker" });
    await using gate = hold();
    const inputs = [{ x: 1 }, { x: 1, before: gate.url("a") }];
    const long = await Promise.all(Array.from({ length: 15 }, () => own.client.create(inputs)));
    expect((await own.client.predict([{ x: 2 }])).status).toBe("success");
    gate.release("a");
    const ended = await Promise.all(long.map(({ prediction_id: id }) => own.client.end(id)));
    expect(ended.filter(({ status }) => status !== "success")).toEqual([]);
  });

  test("cancel waiting and running predictions at once", async () => {
    await using gate = hold();
    const running = await both.client.create([{ x: 1 }, { x: 2, before: gate.url("a") }]);
    await front.client.until(running.prediction_id, ({ status }) => status === "running");
    const canceled = await front.client.cancel(running.prediction_id);
    expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
    await until(async () => (await both.client.metric("sconce_predictions_active")) === 0);
    expect(await both.client.read(running.prediction_id)).toEqual(canceled);
    expect(await both.client.cancel(running.prediction_id)).toEqual(canceled);
  });

  test("cancel the prediction of a client that leaves before it has the id", async () => {
    await using gate = hold();
    const leaving = new AbortController();
    const left = front.client.post([{ x: 1, before: gate.url("a") }], { Prefer: "wait" }, leaving.signal);
    await gate.arrived("a");
    leaving.abort();
    await expect(left).rejects.toThrow();
    await until(async () => (await both.client.metric("sconce_predictions_active")) === 0);
    await until(async () => (await redis.client.hget(await totals(redis), "items")) === "0");
  });

  test("refuse a body as a single server does, and do not find a demo as a prediction", async () => {
    expect(await front.client.refused([{ y: 1 }])).toMatchObject({ status: 422 });
    const { prediction_id: id } = await front.client.predict([{ x: 1 }]);
    expect(await front.client.status(`/demo/${id}`)).toBe(404);
    expect(await front.client.status("/predictions/nobody")).toBe(404);
    expect((await front.client.fetch("/predictions/nobody/cancel", { method: "POST" })).status).toBe(404);
  });

  test("end a prediction at its time limit, with the outputs of finished inputs", async () => {
    await using gate = hold();
    const ended = await front.client.predict([{ x: 1 }, { x: 2, before: gate.url("a") }], { "Cancel-After": "0.5" });
    expect(ended).toMatchObject({ status: "failed", error_message: expect.stringMatching(/ 0\.5 s$/) });
    expect(ended.partial_outputs).toEqual([expect.objectContaining({ y: 3 }), null]);
  });

  test("leave only retained predictions behind in Redis", async () => {
    const { prediction_id: id } = await front.client.predict([{ x: 1 }]);
    const key = `sconce:11:{lab}:p:${id}`;
    expect(JSON.stringify(await redis.client.hgetall(key))).not.toContain('"x');
    expect(await redis.client.pttl(key)).toBeGreaterThan(0);
    const name = (await totals(redis)).split(":totals:")[1];
    expect(await redis.client.xlen(`sconce:11:{lab}:work:${name}`)).toBe(0);
    expect(await redis.client.zcard("sconce:11:{lab}:deadlines")).toBe(0);
    expect(await redis.client.hmget(await totals(redis), "items", "bytes")).toEqual(["0", "0"]);
  });

  test("show logs of a demo as they are written, on any replica", async () => {
    await using demoFront = await store.serve("stage", { queue: redis.url, role: "front" });
    await using worker = await store.serve("stage", { queue: redis.url, role: "worker" });
    await using gate = hold();
    const { demos } = demoFront.client;
    const { prediction_id: id } = await demos.create([{ x: 1, say: "aloha", before: gate.url("a") }]);
    let logs = "";
    const names: string[] = [];
    const events = eventsOf(await demos.watch(id));
    const next = async () => {
      const { value } = await events.next();
      names.push(value?.event ?? "");
      return value?.data;
    };
    while (!logs.includes("said aloha")) {
      const data = await next();
      if (names.at(-1) === "log") logs += data;
    }
    expect(logs).not.toContain("again");
    gate.release("a");
    while (!names.includes("completed")) await next();
    expect(names.join(" ")).toMatch(/^start (log )+output completed$/);
    const ended = await demos.end(id);
    expect(ended).toMatchObject({ status: "success", demo_outputs: [{ half: 1.5 }] });
    expect(ended.logs).toContain(`${logs}aloha again`);
    expect(await worker.client.refused([{ x: 1 }])).toMatchObject({ status: 404 });
    expect(await worker.client.status("/health/ready")).toBe(200);
    expect(await worker.client.metric("sconce_queue_deliveries_total")).toBe(1);
  });
});

async function totals(redis: TestRedis): Promise<string> {
  const [key = ""] = await redis.client.keys("*:totals:lab@*");
  return key;
}
