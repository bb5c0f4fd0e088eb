/** A queue on a Redis with TLS, and with a login; a Redis that fails. */
import { describe, expect, test } from "bun:test";
import { Redis } from "ioredis";
import { parseRedisAddress } from "../../src/predictions/redis/redis-address.ts";
import { RedisLink } from "../../src/predictions/redis/redis-link.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { freePort } from "../helpers/free-port.ts";
import { hold } from "../helpers/hold.ts";
import { hasRedis, hasRedisTls, startRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestServer } from "../helpers/server.ts";

describe.skipIf(!hasRedis)(`a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const port = freePort();
  const store = fixture(() => storeWith("lab", "stage"));
  const redis = fixture(() => startRedis("--bind", "127.0.0.1", "--port", String(port)));

  /** Two replicas: `front` accepts predictions, and `worker` runs them. */
  async function replicas(model: string, queue: string) {
    await using stack = new AsyncDisposableStack();
    const [front, worker] = await Promise.all(
      (["front", "worker"] as const).map((role) => store.serve(model, { queue, role })),
    );
    if (front === undefined || worker === undefined) throw new Error("two replicas");
    const owned = stack.use(front) && stack.use(worker) && stack.move();
    return { front, worker, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  /** Creates, awaits, reads and cancels predictions, and runs a demo. */
  async function roundTrip({ client }: TestServer): Promise<void> {
    const { prediction_id: id } = await client.create([{ x: 1 }]);
    expect(await client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    expect(await client.predict([{ x: 2 }])).toMatchObject({ outputs: [{ y: 5 }] });
    await using gate = hold();
    const { demos } = client;
    const [ended = "", canceled = ""] = await Promise.all(
      ["ended", "canceled"].map(async (name) => {
        const { prediction_id } = await demos.create([{ x: 1, before: gate.url(name) }]);
        await gate.arrived(name);
        return prediction_id;
      }),
    );
    expect(await demos.cancel(canceled)).toMatchObject({ status: "failed", error_message: "Canceled" });
    gate.release("ended");
    expect(await demos.end(ended)).toMatchObject({ status: "success", demo_outputs: [{ half: 1.5 }] });
  }

  const hasTls = hasRedisTls();
  test.skipIf(!hasTls)(`works over TLS with certificates of both sides${hasTls ? "" : ": built without"}`, async () => {
    await using dir = await tempDir();
    await makeCertificates(dir);
    const tlsPort = freePort();
    const files = ["--tls-cert-file", "server.pem", "--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.pem"];
    const paths = files.map((name) => (name.startsWith("--") ? name : dir.join(name)));
    await using _redis = await startRedis("--bind", "127.0.0.1", "--tls-port", String(tlsPort), ...paths);
    const login = `cert=${dir.join("server.pem")}&key=${dir.join("server.key")}`;
    const url = `rediss://127.0.0.1:${tlsPort}?${login}`;
    await using both = await replicas("stage", `${url}&ca=${dir.join("ca.pem")}`);
    await roundTrip(both.front);
    await expect(ping(url)).rejects.toThrow(/certificate/);
  });

  test("works with a password, and with a user who may use only its keys", async () => {
    const client = redis.client;
    await client?.call(
      "acl",
      "setuser",
      "sconce",
      "on",
      ">p@ss:1",
      "~sconce:*",
      "&sconce:*",
      "+@all",
      "-@dangerous",
      "+info",
    );
    await client?.config("SET", "requirepass", "secret");
    await using user = await replicas("stage", `redis://sconce:p%40ss%3A1@127.0.0.1:${port}`);
    await roundTrip(user.front);
    await using owner = await store.serve("lab", { queue: `redis://:secret@127.0.0.1:${port}` });
    expect(await owner?.client.predict([{ x: 1 }])).toMatchObject({ outputs: [{ y: 3 }] });
    await expect(ping(`redis://:wrong@127.0.0.1:${port}`)).rejects.toThrow(/WRONGPASS/);
  });

  test.each([
    ["is not there", () => `redis://127.0.0.1:${freePort()}`, "connect ECONNREFUSED 127.0.0.1:"],
    ["wants another password", () => `redis://:wrong@127.0.0.1:${port}`, "WRONGPASS"],
  ])("that %s at the start of a server is reported with the reason", async (_, url, reason) => {
    await redis.client.config("SET", "requirepass", "secret");
    await using server = store.start(["lab", "--role", "front", "--queue", url()]);
    expect(await server.line("The queue cannot be used")).toContain(`there is no connection to it: ${reason}`);
  });

  test("does not send a command again after a broken connection", async () => {
    await using own = await startRedis();
    const ready = Promise.withResolvers<void>();
    const address = parseRedisAddress(own.url);
    using link = new RedisLink({ address, onFault: () => {}, onReady: ready.resolve });
    await ready.promise;
    await link.call("rpush", "list", "first");
    await own.client.client("PAUSE", 60_000, "WRITE");
    const pushed = link.call("rpush", "list", "second").catch((error) => error.code);
    await until(async () => /flags=b.*cmd=rpush/.test(`${await own.client.client("LIST")}`));
    await own.client.call("client", "kill", "type", "normal", "skipme", "yes");
    await own.client.client("UNPAUSE");
    expect(await pushed).toBe("queue_unavailable");
    expect(await own.client.lrange("list", 0, -1)).toEqual(["first"]);
  });
});

async function ping(queue: string): Promise<unknown> {
  const client = new Redis({ ...parseRedisAddress(queue), retryStrategy: () => null });
  const failure = Promise.withResolvers<never>();
  client.on("error", failure.reject);
  try {
    return await Promise.race([client.call("ping"), failure.promise]);
  } finally {
    client.disconnect();
  }
}
