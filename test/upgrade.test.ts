/** A server that starts on the port and the store of another takes over from it, and no request fails meanwhile. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Build, type BuildsStore, beyond, storeOfBuilds } from "./helpers/builds.ts";
import { clientOf, type RunningCli, startCli } from "./helpers/cli.ts";
import type { PredictionBody } from "./helpers/client.ts";
import { freePort } from "./helpers/free-port.ts";
import { hold } from "./helpers/hold.ts";
import { ConnectionLoad } from "./helpers/keep-alive.ts";
import {
  descendants,
  inRole,
  isRunning,
  mayLeaveBackground,
  policies,
  SCHED_IDLE,
  SCHED_OTHER,
  until,
} from "./helpers/running.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

interface Place {
  readonly dir: TempDir;
  readonly port: number;
}

interface Options {
  readonly env?: Readonly<Record<string, string>>;
  readonly more?: readonly string[];
}

function serve(build: Build, { dir, port }: Place, { env = {}, more = [] }: Options = {}): RunningCli {
  const options = ["--host", "127.0.0.1", "-p", String(port), "--store", dir.join("p.sqlite"), "--linger", "0"];
  // `fetch` keeps connections, and the older server would wait for these.
  options.push(...(more.includes("--idle-timeout") ? [] : ["--idle-timeout", "5"]), ...more);
  return startCli(["serve", `lab:${build}`, ...options], {
    env: { SCONCE_HOME: store.home, TMPDIR: dir.path, ...env },
  });
}

const nameOf = ({ model }: PredictionBody) => `${model?.repository}:${model?.tag}`;
const buildOf = (body: PredictionBody) => (nameOf(body) === store.names.v1 ? "v1" : "v2");

/** Answers whose output is from another build than the build that they name. */
const wrong = ({ answers }: ConnectionLoad) =>
  answers.filter(({ x, body }) => body.outputs?.[0]?.y !== 2 * x + 1 + beyond[buildOf(body)]);

test("no request fails during an upgrade and its rollback under load, and each id stays readable", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const place = { dir, port: await freePort() };
  await using first = serve("v1", place);
  const client = await clientOf(first);
  const load = new ConnectionLoad({ port: place.port, keeping: 4, renewing: 3, pauseMs: 30 });
  // A prediction that runs when the upgrade begins.
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
  await using second = serve("v2", place);
  await second.line("Listening on");
  // The chosen id still names the same prediction, in whichever server the repeated request arrives.
  const again = (await (await put()).json()) as PredictionBody;
  expect([again.prediction_id, again.status === "success", buildOf(again)]).toEqual([chosen, false, "v1"]);
  await until(() => load.answers.some(({ body }) => buildOf(body) === "v2"));
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
  await using third = serve("v1", place);
  await third.line("Listening on");
  expect(await secondEnd).toBe(0);
  await until(() => load.sent > before + 500);
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(wrong(load)).toEqual([]);
  expect(new Set(load.answers.map(({ body }) => buildOf(body)))).toEqual(new Set(["v1", "v2"]));
  for (const { body } of load.answers.filter((_, i) => i % 50 === 0)) {
    expect(await client.end(body.prediction_id)).toEqual(body);
  }
  expect((await client.end(held.prediction_id)).outputs).toMatchObject([{ y: 15 }]);
}, 120_000);

test("no request fails if a newer server has fewer HTTP processes than the older one, or more", async () => {
  await using dir = await tempDir();
  const place = { dir, port: await freePort() };
  // The older server waits for idle connections up to 120 s, longer than this test: it ends sooner only if all new
  // connections reach the newer server.
  const serveFronts = (build: Build, fronts: number) =>
    serve(build, place, { more: ["--fronts", String(fronts), "--idle-timeout", "0"] });
  await using first = serveFronts("v1", 2);
  await first.line("Listening on");
  // The first process opens the port again, after the second one, and also closes the port after the second one.
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
  expect(wrong(load)).toEqual([]);
}, 110_000);

test.skipIf(!mayLeaveBackground)(
  "the newer server starts in the background, and leaves it before it takes over",
  async () => {
    await using dir = await tempDir();
    const place = { dir, port: await freePort() };
    await using first = serve("v1", place);
    await first.line("Listening on");
    await using second = serve("v2", place);
    await until(() => policies(second.pid).includes(SCHED_IDLE));
    await second.line("Listening on");
    // Three processes: the server, its HTTP process and its engine process.
    const processes = await descendants(second.pid);
    expect(processes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(processes.flatMap(policies))).toEqual(new Set([SCHED_OTHER]));
  },
  120_000,
);

test("if the newer server does not start, the older one continues unchanged, and both say why", async () => {
  await using dir = await tempDir();
  const place = { dir, port: await freePort() };
  await using first = serve("v1", place);
  const client = await clientOf(first);
  await using second = serve("v2", place, { env: { BROKEN_BUILD: "v2" } });
  expect(await second.exited).toBe(1);
  expect(second.lines.at(-1)).toContain("v2 is broken");
  expect(await first.line("The newer server did not start, and this one goes on")).toContain("v2 is broken");
  expect((await client.predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
  // Another upgrade can succeed.
  await using third = serve("v2", place);
  await third.line("Listening on");
  await until(async () => (await client.predict([{ x: 1 }], { Connection: "close" })).outputs?.[0]?.y === 1003);
}, 120_000);

test.each([
  ["before it is ready", "starts beside"],
  ["after it has taken over", "takes over"],
])(
  "a newer server that is killed %s leaves its predictions to the older one",
  async (_, moment) => {
    await using dir = await tempDir();
    await using gate = hold();
    const place = { dir, port: await freePort() };
    await using first = serve("v1", place);
    const client = await clientOf(first);
    const own = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
    // A client that waits keeps the port of the older server open.
    const waiting = client.fetch(`/predictions/${own.prediction_id}`, { headers: { Prefer: "wait=60" } });
    await using second = serve("v2", place);
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
  await using first = serve("v1", place);
  const client = await clientOf(first);
  const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
  await gate.arrived("a");
  await using second = serve("v2", place);
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

test("a port that another program uses is still refused", async () => {
  await using dir = await tempDir();
  const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("other") });
  await using server = serve("v1", { dir, port: Number(other.port) });
  expect(await server.exited).toBe(1);
  expect(server.lines.at(-1)).toContain("is in use by another program");
  await other.stop(true);
});
