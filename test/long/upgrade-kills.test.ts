/** Upgrades between servers with different numbers of HTTP processes, in the background, and with a server that is killed. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Build, type BuildsStore, storeOfBuilds } from "../helpers/builds.ts";
import { clientOf } from "../helpers/cli.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { freePort } from "../helpers/free-port.ts";
import { hold } from "../helpers/hold.ts";
import { ConnectionLoad } from "../helpers/keep-alive.ts";
import {
  descendants,
  inRole,
  isRunning,
  mayLeaveBackground,
  policies,
  SCHED_IDLE,
  SCHED_OTHER,
  until,
} from "../helpers/running.ts";
import { tempDir } from "../helpers/temp-dir.ts";
import { nameOf, serve, wrongAnswers } from "../helpers/upgrades.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

test("no request fails if a newer server has fewer HTTP processes than the older one, or more", async () => {
  await using dir = await tempDir();
  const place = { dir, port: await freePort() };
  // The older server waits for idle connections up to 120 s, longer than this test: it ends sooner only if all new
  // connections reach the newer server.
  const serveFronts = (build: Build, fronts: number) =>
    serve(store, build, place, { more: ["--fronts", String(fronts)] });
  await using first = serveFronts("v1", 2);
  await first.line("Listening on");
  // The first HTTP process restarts, so it opens the port after the second one. At an upgrade it also closes the port
  // after the second one.
  process.kill((await inRole(first.pid, "front"))[0] ?? 0, "SIGKILL");
  await first.line("front process 1 is ready again");
  const load = new ConnectionLoad({ port: place.port, keeping: 4, renewing: 3, pauseMs: 30 });
  const processes = await descendants(first.pid);
  const firstEnd = load.acrossTakeover(first);
  await using second = serveFronts("v2", 1);
  await second.line("Listening on");
  expect(await firstEnd).toBe(0);
  expect(processes.filter(isRunning)).toEqual([]);
  await second.line("The older server has ended");
  const secondEnd = load.acrossTakeover(second);
  await using third = serveFronts("v1", 2);
  await third.line("Listening on");
  expect(await secondEnd).toBe(0);
  await third.line("The older server has ended");
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(wrongAnswers(store, load)).toEqual([]);
}, 110_000);

test.skipIf(!mayLeaveBackground)(
  "the newer server starts in the background, and leaves it before it takes over",
  async () => {
    await using dir = await tempDir();
    const place = { dir, port: await freePort() };
    await using first = serve(store, "v1", place);
    await first.line("Listening on");
    await using second = serve(store, "v2", place);
    await until(() => policies(second.pid).includes(SCHED_IDLE));
    await second.line("Listening on");
    // Three processes: the server, its HTTP process and its engine process.
    const processes = await descendants(second.pid);
    expect(processes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(processes.flatMap(policies))).toEqual(new Set([SCHED_OTHER]));
  },
  120_000,
);

test.each([
  ["before it is ready", "starts beside"],
  ["after it has taken over", "takes over"],
])(
  "a newer server that is killed %s leaves its predictions to the older one",
  async (_, moment) => {
    await using dir = await tempDir();
    await using gate = hold();
    const place = { dir, port: await freePort() };
    await using first = serve(store, "v1", place);
    const client = await clientOf(first);
    const own = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
    // A client that waits keeps the port of the older server open.
    const waiting = client.fetch(`/predictions/${own.prediction_id}`, { headers: { Prefer: "wait=60" } });
    await using second = serve(store, "v2", place);
    await first.line(moment);
    const ids = new Map([[own.prediction_id, 3]]);
    if (moment === "takes over") {
      const accepted = await client.create([{ x: 2, before: gate.url("b") }], { Connection: "close" });
      expect(nameOf(accepted)).toBe(store.names.v2);
      ids.set(accepted.prediction_id, 1005);
      await gate.arrived("b");
    }
    const processes = await descendants(second.pid);
    second.kill("SIGKILL");
    await until(() => !processes.some(isRunning));
    await first.line(moment === "takes over" ? "this one goes on" : "it ended before it was ready");
    gate.release("a");
    gate.release("b");
    for (const [id, y] of ids) {
      let record: PredictionBody | undefined;
      await until(async () => {
        record = await client.end(id);
        return record.status === "success" || record.status === "failed";
      });
      expect(record).toMatchObject({ status: "success", outputs: [{ y }] });
    }
    expect(await (await waiting).json()).toMatchObject({ status: "success" });
    expect((await client.predict([{ x: 1 }], { Connection: "close" })).outputs).toMatchObject([{ y: 3 }]);
  },
  120_000,
);

test("if an older server is killed while it finishes, the newer one runs its predictions", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const place = { dir, port: await freePort() };
  await using first = serve(store, "v1", place);
  const client = await clientOf(first);
  const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
  await gate.arrived("a");
  await using second = serve(store, "v2", place);
  await first.line("Stopping");
  const processes = await descendants(first.pid);
  first.kill("SIGKILL");
  await until(() => !processes.some(isRunning));
  gate.release("a");
  let record: PredictionBody | undefined;
  await until(async () => {
    record = await client.end(id);
    return record.status === "success" || record.status === "failed";
  });
  expect(record).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  expect(nameOf(record as PredictionBody)).toBe(store.names.v1);
  await second.line("The older server has ended");
}, 120_000);
