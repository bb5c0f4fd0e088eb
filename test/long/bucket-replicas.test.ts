/**
 * Replicas that share an S3 bucket: large bodies and outcomes go to the bucket, and answers can have links to file
 * outputs.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ServeConfig } from "../../src/server/config.ts";
import { boxModel } from "../helpers/box-model.ts";
import { hasBucket, startBucket, type TestBucket } from "../helpers/bucket.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { hold } from "../helpers/hold.ts";
import { writeModel } from "../helpers/model-text.ts";
import { hasRedis, startRedis, type TestRedis } from "../helpers/redis.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

/** A text of more than 1 MB, which serves as input and as output. */
const large = "many words ".repeat(150_000);
const dataUri = (text: string) => `data:text/plain;base64,${Buffer.from(text).toString("base64")}`;
const applied = "preference-applied";

describe.skipIf(!hasRedis || !hasBucket)("replicas with a bucket (with redis-server and rclone)", () => {
  let [source, redis, bucket, store]: [TempDir, TestRedis, TestBucket, TestStore] | [] = [];
  let front: TestServer;
  let worker: TestServer;
  const before = { ...process.env };

  beforeAll(async () => {
    source = await tempDir();
    [redis, bucket, store] = await Promise.all([
      startRedis(),
      startBucket(),
      storeWith(await writeModel(source, boxModel)),
    ]);
    Object.assign(process.env, bucket.env);
    const config: Partial<ServeConfig> = { queue: redis.url, bucket: "s3://tests/box", allowPrivateUrls: true };
    front = await store.serve("box", { ...config, role: "front" });
    worker = await store.serve("box", { ...config, role: "worker" });
  });

  afterAll(async () => {
    Object.assign(process.env, before);
    for (const name of Object.keys(bucket?.env ?? {})) if (!(name in before)) delete process.env[name];
    await Promise.all([front?.stop(), worker?.stop()]);
    await Promise.all([source, redis, bucket, store].map((each) => each?.[Symbol.asyncDispose]()));
  });

  /** Resolves with the keys of the bucket's objects once `isRight` accepts them, or after 5000 tries. */
  const keysUntil = async (isRight: (keys: readonly string[]) => boolean): Promise<string[]> => {
    for (let tries = 0; ; tries++) {
      const keys = (await bucket?.keys()) ?? [];
      if (isRight(keys) || tries > 5000) return keys;
    }
  };

  test("store large bodies until the end, and large outcomes during their retention", async () => {
    const ended = await front.client.predict([{ number: 1, file: dataUri(large) }]);
    expect(ended.outputs?.[0]?.seen).toMatchObject({ file: `text/plain: ${large}` });
    const isMembers = (key: string) => key.includes(`/${ended.prediction_id}/members/`);
    const keys = await keysUntil((all) => all.length === 1);
    expect([keys.length, keys.every(isMembers)]).toEqual([1, true]);
    const noted = await redis?.client.zrange("sconce:large:s3://tests/box", "0", "-1");
    expect(noted?.map((name) => `box/${name}`)).toEqual(keys);
    expect(await front.client.read(ended.prediction_id)).toEqual(ended);
  });

  test("store small bodies and outcomes in the queue", async () => {
    const all = await bucket?.keys();
    await front.client.predict([{ number: 1, text: "small" }]);
    expect(await bucket?.keys()).toEqual(all ?? []);
  });

  test("answer with links to file outputs if the client prefers links, else with data URIs", async () => {
    const note = dataUri("no file");
    const inputs = [{ number: 1, text: `a "${note.slice(0, 30)}"`, any: { [note]: "data:text/plain;base64,?" } }];
    const response = await front.client.post(inputs, { Prefer: "wait=30, outputs=url" });
    expect(response.headers.get(applied)).toBe("outputs=url, wait=30");
    const linked = (await response.json()) as PredictionBody;
    const plain = await front.client.read(linked.prediction_id);
    expect(plain.outputs?.[0]).toMatchObject({ note: dataUri("the note"), seen: inputs[0] });
    expect(linked.outputs?.[0]?.seen).toEqual(plain.outputs?.[0]?.seen);
    const links = JSON.stringify(linked).match(/http:[^"]+/g) ?? [];
    const texts = await Promise.all(links.map(async (link) => (await fetch(link)).text()));
    expect(texts.sort()).toEqual(["first", "second".repeat(100), "the note"]);
    for (const link of links) {
      const seconds = Number(new URL(link).searchParams.get("X-Amz-Expires"));
      expect(seconds).toBeGreaterThan(3500);
      expect(seconds).toBeLessThanOrEqual(3600);
    }
    const path = `/predictions/${linked.prediction_id}`;
    const read = await front.client.fetch(path, { headers: { Prefer: 'outputs="url"' } });
    expect([read.headers.get(applied), (await read.text()).includes("data:text")]).toEqual(["outputs=url", true]);
  });

  test("answer demos with links too, and both kinds of large answers concurrently", async () => {
    const inputs = [{ number: 1, file: dataUri(large) }];
    const demo = await front.client.fetch("/demo", {
      method: "POST",
      body: JSON.stringify(inputs),
      headers: { "Content-Type": "application/json", Prefer: "wait, outputs=url" },
    });
    const { demo_id, demo_outputs } = (await demo.json()) as { demo_id: string; demo_outputs: { map: string }[] };
    expect(await (await fetch(demo_outputs[0]?.map ?? "")).text()).toBe("the map");
    const headers = { Prefer: "outputs=url" };
    const [plain, links] = await Promise.all(
      [{}, { headers }].map(async (init) => (await front.client.fetch(`/demo/${demo_id}`, init)).text()),
    );
    expect([plain?.includes(dataUri("the map")), links?.includes(dataUri("the map"))]).toEqual([true, false]);
  });

  test("store a large outcome in the queue if the bucket fails", async () => {
    await using gate = hold({ body: large });
    const config = { queue: redis?.url ?? "", bucket: "s3://tests/box", queueName: "kept", allowPrivateUrls: true };
    await using own = await store?.serve("box", config);
    const { prediction_id: id = "" } = (await own?.client.create([{ number: 1, file: gate.url("a") }])) ?? {};
    await gate.arrived("a");
    await bucket?.kill();
    try {
      gate.release("a");
      const ended = await own?.client.end(id);
      expect(ended?.outputs?.[0]?.seen).toMatchObject({ file: expect.stringContaining(large) });
    } finally {
      await bucket?.start();
    }
  });

  test("run other predictions while a body in the bucket is unavailable, and its prediction once it is available", async () => {
    const config = { queue: redis?.url ?? "", bucket: "s3://tests/box", queueName: "late", queueLease: 300 };
    await using accepting = await store?.serve("box", { ...config, role: "front" });
    const { prediction_id: id } = (await accepting?.client.create([{ number: 1, file: dataUri(large) }])) ?? {};
    await bucket?.kill();
    try {
      await using _late = await store?.serve("box", { ...config, role: "worker" });
      expect((await accepting?.client.predict([{ number: 2 }]))?.status).toBe("success");
      expect((await accepting?.client.read(id ?? ""))?.status).toBe("pending");
      await bucket?.start();
      expect((await accepting?.client.end(id ?? ""))?.status).toBe("success");
    } finally {
      await bucket?.start();
    }
  });

  test("declare the links in /openapi.json", async () => {
    expect(await (await front.client.fetch("/openapi.json")).text()).toContain("outputs=url");
  });

  test("refuse large bodies with 503 while the bucket is unavailable, serve other requests, and recover", async () => {
    const kept = await front.client.predict([{ number: 1, file: dataUri(large) }]);
    await bucket?.kill();
    try {
      const refused = await front.client.post([{ number: 1, file: dataUri(large) }]);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
      expect(await refused.json()).toMatchObject({ detail: expect.stringContaining("the bucket for large values") });
      expect((await front.client.fetch(`/predictions/${kept.prediction_id}`)).status).toBe(503);
      const response = await front.client.post([{ number: 1 }], { Prefer: "wait, outputs=url" });
      expect(response.headers.get(applied)).toBe("wait=60");
      expect(await response.json()).toMatchObject({ outputs: [{ note: dataUri("the note") }] });
    } finally {
      await bucket?.start();
    }
    expect(await front.client.read(kept.prediction_id)).toEqual(kept);
    expect((await front.client.predict([{ number: 1, file: dataUri(large) }])).status).toBe("success");
  });
});
