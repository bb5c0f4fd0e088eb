/**
 * Shadows, which are builds that get copies of predictions: a shadow that hangs, and a shadow beside versions that
 * share the traffic.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { clientOf, type RunningCli } from "../helpers/cli.ts";
import type { Client } from "../helpers/client.ts";
import { hold } from "../helpers/hold.ts";
import { hasRedis, startRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";
import { buildShadowed, countsOf } from "../helpers/shadowed.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";
import { serveOnLoopback } from "../helpers/versions.ts";

let dir: TempDir;
let store: TestStore;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith();
  await buildShadowed(dir, { SCONCE_HOME: store.home });
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (args: readonly string[], more: Readonly<Record<string, string>> = {}): RunningCli =>
  serveOnLoopback(args, { SCONCE_HOME: store.home, ...more });

test("a shadow that hangs delays no client, and copies beyond two batches are dropped", async () => {
  await using held = hold();
  await using server = serve(["ten:v1", "--shadow", "v2"], { GATE: held.url("gate") });
  const client = await clientOf(server);
  for (let x = 2; x < 22; x++) expect((await client.predict([{ x }])).outputs).toMatchObject([{ y: 2 * x + 1 }]);
  await held.arrived("gate");
  expect(await countsOf(client)).toEqual({ equal: 0, different: 0, failed: 0, dropped: 12 });
  held.release("gate");
  await until(async () => (await countsOf(client)).equal === 8);
});

test("a shadow gets copies from all versions that share the traffic", async () => {
  await using server = serve(["ten", ...sharing, "--fronts", "2"]);
  await copiesAll(await clientOf(server));
});

test.skipIf(!hasRedis)(
  `with --queue, versions share traffic, and the shadow of the replica that ran a prediction gets the copy${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    await using server = serve(["ten", ...sharing, "--queue", redis.url]);
    await copiesAll(await clientOf(server));
  },
);

const sharing = ["--split", "v1=1,v3=1", "--shadow", "v2"];

async function copiesAll(client: Client): Promise<void> {
  const ids = Array.from({ length: 24 }, (_, i) => `c${i}`);
  const ends = [];
  for (const id of ids) ends.push(await client.predict([{ x: 1 }], { "X-Client-Id": id }));
  expect(new Set(ends.map(({ model }) => model?.digest)).size).toBe(2);
  await until(async () => {
    const { equal = 0, dropped = 0 } = await countsOf(client);
    return equal + dropped === ids.length;
  });
}
