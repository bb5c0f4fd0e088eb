/** Large bodies and outcomes in the queue have a time limit in proportion to their size. */
import { describe, expect, test } from "bun:test";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { endOf, queueOn, requestOf } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const LARGE = 10_000_000;

describe.skipIf(!hasRedis)(`large values (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);

  const worker = (name: string) => queueOn(redis.url, name);

  const large = JSON.stringify("x".repeat(LARGE));

  test("have a time limit in proportion to their bytes, as have commands that wait for them", async () => {
    using one = await worker("slow");
    using other = await worker("other");
    const othersFail = () =>
      expect(other.queue.renew({ id: "p", bytes: 0 })).rejects.toMatchObject({ code: "queue_unavailable" });
    redis.pause();
    const created = one.queue.create(requestOf("p", large));
    const renewed = one.queue.renew({ id: "p", bytes: 0 });
    await othersFail();
    redis.resume();
    expect(await created).toHaveProperty("createdAtMs");
    expect(await renewed).toBe("lost");
    const [taken] = await one.take();
    await until(() => other.queue.link.call("ping").then(Boolean, () => false));
    redis.pause();
    const loaded = taken?.load();
    await othersFail();
    redis.resume();
    expect((await loaded)?.body).toHaveLength(large.length);
  });

  test("fail after their time limit together with their connection, which is replaced", async () => {
    using one = await worker("given-up");
    redis.pause();
    // Repeats until a command fails before it is sent: then the old connection is closed, and the new one is not
    // ready.
    const failure = () => one.queue.link.call("get", "x").catch((error) => String(error.cause));
    await until(async () => `${await failure()}`.includes("there is no connection"));
    redis.resume();
    await until(() => one.queue.link.call("ping").then(Boolean, () => false));
  });

  test("are read whole, beside small values and by several readers", async () => {
    using one = await worker("read");
    const ends = [endOf(`"outputs":[${large}]`), endOf('"outputs":[1]', "q")];
    for (const each of ends) {
      await one.queue.create(requestOf(each.record.id));
      await one.queue.finish(each);
    }
    const read = async (id: string) => (await one.queue.read(id))?.outcome?.members;
    const [first, small, second] = await Promise.all([read("p"), read("q"), read("p")]);
    expect(first).toEqual(ends[0]?.record.outcome.members);
    expect(small).toBe('"outputs":[1]');
    expect(second).toEqual(first);
    await one.queue.cancel("p");
    expect(await read("p")).toEqual(first);
  });

  test("above 64 MiB are refused by name", async () => {
    await using dir = await tempDir();
    const output = {
      output: "z.object({ y: z.string() })",
      postprocess: '(_, { input: { x } }) => ({ y: "y".repeat(x) })',
    };
    await using store = await storeWith(await writeModel(dir, modelText({ name: '"huge"', ...output })));
    const queue = { queue: redis.url };
    await expect(store.serve("huge", { ...queue, maxBodyBytes: 2 ** 27 })).rejects.toThrow("--max-body-bytes");
    await using server = await store.serve("huge", queue);
    expect(await server.client.predict([{ x: 2 ** 26 }])).toMatchObject({
      status: "failed",
      error_message: expect.stringContaining(" 67108864 bytes"),
    });
  });
});
