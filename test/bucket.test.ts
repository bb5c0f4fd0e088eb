/** Large values in an S3 bucket: storage, expiry, and errors. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MemoryAccount } from "../src/server/memory/memory-account.ts";
import { Bucket } from "../src/server/queue/bucket.ts";
import { BucketValues } from "../src/server/queue/bucket-values.ts";
import { hasBucket, startBucket, type TestBucket } from "./helpers/bucket.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";

const memory = new MemoryAccount();
const bytes = new TextEncoder().encode("a value");
const name = "team/digits@sha256:0a1b/id_-9/body";

describe.skipIf(!hasBucket)(`a bucket (with rclone${hasBucket ? "" : ": not here"})`, () => {
  let server: TestBucket;
  let bucket: Bucket;

  beforeAll(async () => {
    server = await startBucket();
    bucket = bucketWith();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  const bucketWith = (env: Readonly<Record<string, string | undefined>> = {}, address = "s3://tests/a/folder/") =>
    new Bucket({ address, memory, env: { ...server.env, ...env } });

  test("returns stored values, after replacement and deletion too", async () => {
    await bucket.put(name, bytes);
    expect(await server.keys()).toEqual([`a/folder/${name}`]);
    await bucket.put(name, "another é");
    expect(new TextDecoder().decode(await bucket.get(name))).toBe("another é");
    await bucket.delete(name);
    await bucket.delete(name);
    expect(await bucket.get(name)).toBeUndefined();
    expect(memory.used).toBe(0);
  });

  test("charges the memory account for values in transit", async () => {
    await bucket.put(name, bytes);
    const sent = bucket.put(name, new Uint8Array(100_000));
    expect(memory.parts.outputs).toBe(100_000);
    await sent;
    expect(memory.used).toBe(0);
    await bucket.delete(name);
  });

  test("creates links for reading only, with media type and expiry", async () => {
    await bucket.put(name, bytes, "text/html");
    const link = bucket.link(name, 60);
    expect(new URL(link).searchParams.get("X-Amz-Expires")).toBe("60");
    const answer = await fetch(link);
    expect([answer.headers.get("content-type"), await answer.text()]).toEqual(["text/html", "a value"]);
    expect((await fetch(link, { method: "DELETE" })).ok).toBe(false);
    expect((await fetch(link.replace("Expires=60", "Expires=6000"))).ok).toBe(false);
    await bucket.delete(name);
  });

  const faults: [string, () => Bucket][] = [
    ["it denies access (403 SignatureDoesNotMatch)", () => bucketWith({ S3_SECRET_ACCESS_KEY: "wrong" })],
    ["it denies access (403 InvalidAccessKeyId)", () => bucketWith({ S3_ACCESS_KEY_ID: "nobody" })],
    ["there is no such bucket", () => bucketWith({}, "s3://nowhere")],
    ["there are no credentials", () => bucketWith({ S3_ACCESS_KEY_ID: undefined, AWS_ACCESS_KEY_ID: undefined })],
    ["it cannot be reached (ECONNREFUSED)", () => bucketWith({ S3_ENDPOINT: "http://127.0.0.1:1" })],
  ];
  test.each(faults)("reports that %s", async (reason, of) => {
    const message = `the bucket for large values cannot be used now: ${reason}; try again later`;
    const calls = [() => of().put(name, bytes), () => of().get(name), () => of().delete(name)];
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: "queue_unavailable", message });
  });

  test("retries a few times after a server error", async () => {
    let left = 2;
    let asked = 0;
    using busy = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch() {
        asked += 1;
        return left-- > 0
          ? new Response("<Error><Code>InternalError</Code></Error>", { status: 500 })
          : new Response(bytes);
      },
    });
    const asking = bucketWith({ S3_ENDPOINT: busy.url.origin });
    expect(await asking.get(name)).toEqual(bytes);
    left = Infinity;
    await expect(asking.put(name, bytes)).rejects.toThrow("it refused a request (500 InternalError)");
    expect(asked).toBe(3 + 4);
  });

  test("stops asking an unresponsive bucket, however many values wait, and recovers with it", async () => {
    await bucket.put(name, bytes);
    const hasty = new Bucket({ address: "s3://tests/a/folder", memory, env: server.env, limitMs: 100 });
    await server.pause();
    const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => hasty.get(name)));
    server.resume();
    const messages = outcomes.map((outcome) => outcome.status === "rejected" && String(outcome.reason));
    expect(new Set(messages)).toEqual(new Set([expect.stringContaining("it does not answer in time")]));
    expect(await hasty.get(name)).toEqual(bytes);
    await bucket.delete(name);
    expect(memory.used).toBe(0);
  });

  test.skipIf(!hasRedis)("deletes expired values, also of killed processes", async () => {
    await using redis = await startRedis();
    const values = (lifetimeS: number) => new BucketValues({ bucket, redis: redis.client, key: "large", lifetimeS });
    using short = values(-1);
    using long = values(60);
    // The folder is created first: rclone loses files if several concurrent requests create their folder.
    await short.put("short/first", bytes);
    await Promise.all(Array.from({ length: 120 }, (_, i) => short.put(`short/${i}`, bytes)));
    await long.put("long", bytes);
    await long.deleteExpired();
    expect(await server.keys()).toEqual(["a/folder/long"]);
    expect(await redis.client.zrange("large", "0", "-1")).toEqual(["long"]);
    await server.kill();
    await expect(short.put("left", bytes)).rejects.toMatchObject({ code: "queue_unavailable" });
    expect(await redis.client.zrange("large", "0", "-1")).toEqual(["left", "long"]);
    await expect(long.deleteExpired()).rejects.toMatchObject({ code: "queue_unavailable" });
    await server.start();
    await long.deleteExpired();
    expect(await redis.client.zrange("large", "0", "-1")).toEqual(["long"]);
  });
});
