/** The backups of docs/deploy.md: copies are made while the server runs, and other servers start with the copies. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { copyFile, mkdir } from "node:fs/promises";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const models = fixture(() => storeWith("lab"));

test("a copy by VACUUM INTO has results of all sizes and unfinished predictions", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const path = dir.join("data/predictions.sqlite");
  await using server = await models.serve("lab", { store: path });
  const ended = async (inputs: object[]) => server.client.end((await server.client.create(inputs)).prediction_id);
  const small = await ended([{ x: 1 }]);
  const large = await ended(Array.from({ length: 4000 }, (_, x) => ({ x })));
  expect(JSON.stringify(large).length).toBeGreaterThan(64 * 1024);
  const pending = await server.client.create([{ x: 1, before: gate.url("a") }]);
  const note = { text: "x".repeat(100_000) };
  const largePending = await server.client.create([{ x: 2, before: gate.url("b"), note }]);
  await Promise.all([gate.arrived("a"), gate.arrived("b")]);
  const copy = dir.join("copy/predictions.sqlite");
  await mkdir(dir.join("copy"));
  using database = new Database(path, { readonly: true });
  database.run("VACUUM INTO ?", [copy]);
  gate.release("a");
  gate.release("b");
  await server.stop();
  await using restored = await models.serve("lab", { store: copy });
  expect(await restored.client.read(small.prediction_id)).toMatchObject({ outputs: [{ y: 3 }] });
  expect((await restored.client.read(large.prediction_id)).outputs).toEqual(large.outputs);
  expect(await restored.client.end(pending.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  expect(await restored.client.end(largePending.prediction_id)).toMatchObject({ outputs: [{ y: 5 }] });
});

describe.skipIf(!hasRedis)(`a snapshot of Redis (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  test("has results and unfinished predictions, and can be turned into an append-only file", async () => {
    await using dir = await tempDir();
    await using gate = hold();
    const folders = { first: dir.join("first"), second: dir.join("second") };
    for (const folder of Object.values(folders)) await mkdir(folder);
    await using redis = await startRedis("--dir", folders.first);
    await using server = await models.serve("lab", { queue: redis.url, queueName: "backup", queueLease: 1 });
    const ended = await server.client.predict([{ x: 1 }]);
    const pending = await server.client.create([{ x: 2, before: gate.url("a") }]);
    await gate.arrived("a");
    await redis.client.save();
    await copyFile(`${folders.first}/dump.rdb`, `${folders.second}/dump.rdb`);
    gate.release("a");
    await server.stop();
    {
      await using loading = await startRedis("--dir", folders.second, "--appendonly", "no");
      await loading.client.config("SET", "appendonly", "yes");
      await until(async () => /aof_rewrite_in_progress:0\b/.test(await loading.client.info("persistence")));
    }
    await using restarted = await startRedis("--dir", folders.second, "--appendonly", "yes");
    await using restored = await models.serve("lab", { queue: restarted.url, queueName: "backup", queueLease: 1 });
    expect(await restored.client.read(ended.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    expect(await restored.client.end(pending.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
  });
});
