/** A server that starts on the port and the store of another takes over from it, and no request fails meanwhile. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type BuildsStore, storeOfBuilds } from "./helpers/builds.ts";
import { clientOf } from "./helpers/cli.ts";
import type { PredictionBody } from "./helpers/client.ts";
import { freePort } from "./helpers/free-port.ts";
import { hold } from "./helpers/hold.ts";
import { ConnectionLoad } from "./helpers/keep-alive.ts";
import { until } from "./helpers/running.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { buildOf, serve, wrongAnswers } from "./helpers/upgrades.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

test("no request fails during an upgrade and its rollback under load, and each id stays readable", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const place = { dir, port: await freePort() };
  await using first = serve(store, "v1", place);
  const client = await clientOf(first);
  const load = new ConnectionLoad({ port: place.port, keeping: 4, renewing: 3, pauseMs: 30 });
  // This prediction runs when the upgrade begins.
  const held = await client.create([{ x: 7, before: gate.url("a") }], { Connection: "close" });
  await gate.arrived("a");
  const chosen = crypto.randomUUID();
  const put = () =>
    client.fetch(`/predictions/${chosen}`, {
      method: "PUT",
      headers: { "Content-Type": "application/json", Connection: "close" },
      body: JSON.stringify([{ x: 9, before: gate.url("a") }]),
    });
  expect((await put()).status).toBe(200);
  const firstEnd = load.acrossTakeover(first);
  await using second = serve(store, "v2", place);
  await second.line("Listening on");
  // The chosen id still names the same prediction, in whichever server the repeated request arrives.
  const again = (await (await put()).json()) as PredictionBody;
  expect([again.prediction_id, again.status === "success", buildOf(store, again)]).toEqual([chosen, false, "v1"]);
  await until(() => load.answers.some(({ body }) => buildOf(store, body) === "v2"));
  const fresh = () => client.fetch(`/predictions/${held.prediction_id}`, { headers: { Connection: "close" } });
  for (let i = 0; i < 10; i++) {
    expect(await (await fresh()).json()).toMatchObject({ status: expect.stringMatching(/ing$/) });
  }
  const waited = client.fetch(`/predictions/${held.prediction_id}`, {
    headers: { Prefer: "wait", Connection: "close" },
  });
  gate.release("a");
  expect(await (await waited).json()).toMatchObject({ status: "success", outputs: [{ y: 15 }] });
  expect((await client.end(chosen)).outputs).toMatchObject([{ y: 19 }]);
  expect(await firstEnd).toBe(0);
  await second.line("The older server has ended");
  const before = load.sent;
  const secondEnd = load.acrossTakeover(second);
  await using third = serve(store, "v1", place);
  await third.line("Listening on");
  expect(await secondEnd).toBe(0);
  await until(() => load.sent > before + 500);
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(wrongAnswers(store, load)).toEqual([]);
  expect(new Set(load.answers.map(({ body }) => buildOf(store, body)))).toEqual(new Set(["v1", "v2"]));
  for (const { body } of load.answers.filter((_, i) => i % 50 === 0)) {
    expect(await client.end(body.prediction_id)).toEqual(body);
  }
  expect((await client.end(held.prediction_id)).outputs).toMatchObject([{ y: 15 }]);
}, 120_000);

test("if the newer server does not start, the older one continues unchanged, and both say why", async () => {
  await using dir = await tempDir();
  const place = { dir, port: await freePort() };
  await using first = serve(store, "v1", place);
  const client = await clientOf(first);
  await using second = serve(store, "v2", place, { env: { BROKEN_BUILD: "v2" } });
  expect(await second.exited).toBe(1);
  expect(second.lines.at(-1)).toContain("v2 is broken");
  expect(await first.line("The newer server did not start, and this one goes on")).toContain("v2 is broken");
  expect((await client.predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
  // After a failed upgrade, another one succeeds.
  await using third = serve(store, "v2", place);
  await third.line("Listening on");
  await until(async () => (await client.predict([{ x: 1 }], { Connection: "close" })).outputs?.[0]?.y === 1003);
}, 120_000);

test("a port that another program uses is still refused", async () => {
  await using dir = await tempDir();
  const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("other") });
  await using server = serve(store, "v1", { dir, port: Number(other.port) });
  expect(await server.exited).toBe(1);
  expect(server.lines.at(-1)).toContain("is in use by another program");
  await other.stop(true);
});
