/**
 * Webhooks of replicas. Any replica may end a prediction, and any replica may be killed before it has sent the
 * webhook.
 */
import { describe, expect, test } from "bun:test";
import { clientOf } from "./helpers/cli.ts";
import { fixture } from "./helpers/fixture.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";

describe.skipIf(!hasRedis)(`replicas (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);
  const store = fixture(() => storeWith("lab"));

  const serve = (config: Parameters<TestStore["serve"]>[1]) =>
    store.serve("lab", { queue: redis.url, queueLease: 1, webhookSecret: [secret], allowPrivateUrls: true, ...config });
  const told = (url: string) => ({ "Webhook-URL": url });
  /** Resolves once the queue has no webhook left. */
  const forgotten = () => until(async () => (await redis.client.zcard("sconce:11:{lab}:due")) === 0);

  test("send the webhooks that a front accepted about predictions that a worker runs, each once", async () => {
    await using to = receiver();
    await using front = await serve({ queueName: "told", role: "front" });
    await using _worker = await serve({ queueName: "told", role: "worker" });
    const { prediction_id: id } = await front.client.create([{ x: 1 }, { x: 2 }], told(to.url()));
    const ended = await front.client.end(id);
    await forgotten();
    expect(to.received).toMatchObject([{ id: `msg_${id}`, type: "prediction.completed", data: ended }]);
  });

  test("send webhooks about predictions that never ran, because they were canceled or expired", async () => {
    await using to = receiver();
    await using front = await serve({ queueName: "alone", role: "front" });
    const canceled = await front.client.create([{ x: 1 }], told(to.url("/canceled")));
    await front.client.create([{ x: 1 }], { ...told(to.url("/late")), "Cancel-After": "0.1" });
    await front.client.cancel(canceled.prediction_id);
    const messages = await to.until(2);
    expect(messages.map(({ path, data }) => [path, data.error_message]).toSorted()).toEqual([
      ["/canceled", "Canceled"],
      ["/late", expect.stringMatching(/ 0\.1 s$/)],
    ]);
    await forgotten();
  });

  test("without a secret refuse webhooks, and leave accepted ones to other replicas", async () => {
    await using to = receiver();
    await using front = await serve({ queueName: "secret", role: "front" });
    await using other = await serve({ queueName: "secret", webhookSecret: [] });
    expect(await other.client.refused([{ x: 1 }], told(to.url()))).toMatchObject({ status: 422 });
    const { prediction_id: id } = await front.client.create([{ x: 1 }], told(to.url()));
    expect((await to.until(1))[0]).toMatchObject({ id: `msg_${id}`, data: { status: "success" } });
  });

  test("send to the new receiver of an id that is used again, and no longer to the earlier receiver", async () => {
    const isTold = Promise.withResolvers<unknown>();
    await using to = receiver(({ path, data }) => {
      if (path === "/earlier") return new Response(null, { status: 500 });
      isTold.resolve(data.outputs);
      return new Response();
    });
    await using server = await serve({ queueName: "again" });
    const { client } = server;
    await client.put("an-id-that-is-taken-again", [{ x: 1 }], told(to.url("/earlier")));
    await to.until(1);
    // The prediction expires.
    await redis.client.del("sconce:11:{lab}:p:an-id-that-is-taken-again");
    await client.put("an-id-that-is-taken-again", [{ x: 2 }], told(to.url("/new")));
    expect(await isTold.promise).toMatchObject([{ y: 5 }]);
    await forgotten();
  });

  test("take over the webhooks of a killed replica, and of the last replica of a build", async () => {
    const answers = [Promise.withResolvers<Response>(), Promise.withResolvers<Response>()];
    await using to = receiver((_, index) => answers[index]?.promise ?? new Response());
    const env = { SCONCE_WEBHOOK_SECRET: secret, SCONCE_ALLOW_PRIVATE_URLS: "1" };
    const options = ["--queue-name", "killed", "--queue-lease", "1"];
    await using killed = store.start(["lab", "--queue", redis.url, ...options], env);
    const client = await clientOf(killed);
    const { prediction_id: id } = await client.create([{ x: 1 }], told(to.url()));
    await to.until(1);
    const fronts: TestServer[] = [await serve({ queueName: "killed", role: "front" })];
    killed.kill("SIGKILL");
    await to.until(2);
    fronts.push(await serve({ queueName: "next", role: "front" }));
    await fronts[0]?.stop();
    const messages = await to.until(3);
    expect(messages.map((message) => [message.id, message.data.status])).toEqual(
      Array(3).fill([`msg_${id}`, "success"]),
    );
    await forgotten();
    await fronts[1]?.stop();
    for (const { resolve } of answers) resolve(new Response());
  });
});
