/** POST /reload and SIGHUP: a tag that names another build now is switched to this build inside the server. */
import { beforeAll, expect, test } from "bun:test";
import { type Build, storeOfBuilds } from "./helpers/builds.ts";
import { adminOf, clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { type Hold, hold } from "./helpers/hold.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { inRole, until } from "./helpers/running.ts";
import { addModels } from "./helpers/server.ts";
import { switchUnderLoad } from "./helpers/switches.ts";

const store = fixture(storeOfBuilds);
beforeAll(async () => {
  await addModels(store.home, ["texts"]);
});

interface Reloaded extends AsyncDisposable {
  readonly cli: RunningCli;
  readonly client: Client;
  readonly admin: Client;
  /** Makes the tag name a build, and reloads. */
  switchTo(build: Build): Promise<{ status: number; body: Readonly<Record<string, unknown>> }>;
}

/** Serves a tag that names the build `v1`. The process has no terminal, so SIGHUP reloads. */
async function serve(tag: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  store.tag(tag, "v1");
  const options = ["--host", "127.0.0.1", "-p", "0", "--admin-port", "0", "--store", "memory"];
  const cli = store.startCli(["serve", `lab:${tag}`, ...options, ...args], { env, detached: true });
  const [client, admin] = [await clientOf(cli), await adminOf(cli)];
  return {
    cli,
    client,
    admin,
    switchTo: (build) => {
      store.tag(tag, build);
      return reload(admin);
    },
    [Symbol.asyncDispose]: () => cli[Symbol.asyncDispose](),
  } satisfies Reloaded;
}

async function reload(admin: Client) {
  const answer = await admin.fetch("/reload", { method: "POST" });
  return { status: answer.status, body: (await answer.json()) as Readonly<Record<string, unknown>> };
}

const outputOf = ({ outputs }: PredictionBody) => outputs?.[0]?.y;
const switched = (...names: readonly unknown[]) => ({ status: 200, body: { status: "ready", switched: names } });
const named = (build: Build) => expect.stringContaining(`lab@sha256:${store.names[build].slice("lab:".length)}`);
const problem = (code: string, detail: string) => ({
  body: { type: `urn:sconce:problem:${code}`, detail: expect.stringContaining(detail) },
});

test("a reload switches a moved tag to its build, and answers when the build answers clients", async () => {
  await using server = await serve("moved", ["--fronts", "2"]);
  const { client, cli } = server;
  expect(await server.switchTo("v1")).toEqual(switched());
  const [engine] = await inRole(cli.pid, "engine");
  const fronts = await inRole(cli.pid, "front");
  expect(await server.switchTo("v2")).toEqual(switched(named("v2")));
  for (let i = 0; i < 8; i++) {
    const body = await client.predict([{ x: 1 }], { Connection: "close" });
    expect([outputOf(body), body.model?.digest]).toEqual([1003, expect.stringContaining(store.names.v2.slice(4))]);
  }
  expect(await client.json("/")).toMatchObject({
    digest: expect.stringContaining(store.names.v2.slice(4)),
  });
  const label = (build: Build) => `lab:moved@${store.names[build].slice("lab:".length)}`;
  await cli.line(`${label("v2")} starts beside ${label("v1")}`);
  await cli.line(`${label("v2")} answers now`);
  await cli.line(`${label("v1")} has finished`);
  // The engine process of the earlier build ends, and the front processes stay.
  await until(async () => (await inRole(cli.pid, "engine")).length === 1);
  expect(await inRole(cli.pid, "engine")).not.toContain(engine);
  expect(await inRole(cli.pid, "front")).toEqual(fronts);
  expect(await server.switchTo("v1")).toEqual(switched(named("v1")));
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(3);
}, 60_000);

test("if the new build does not start, the answer has the reason, and the earlier build goes on", async () => {
  await using server = await serve("broken", [], { BROKEN_BUILD: "v2" });
  const { client, cli } = server;
  const [engine] = await inRole(cli.pid, "engine");
  expect(await server.switchTo("v2")).toMatchObject({ status: 500, ...problem("reload_failed", "setup") });
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(3);
  expect(await client.status("/health/ready")).toBe(200);
  await until(async () => (await inRole(cli.pid, "engine")).length === 1);
  expect(await inRole(cli.pid, "engine")).toEqual([engine ?? 0]);
  // After a failed reload, another one succeeds.
  expect(await server.switchTo("v3")).toEqual(switched(named("v3")));
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(2003);
}, 60_000);

/** Begins a prediction that waits for the gate. @returns its id */
async function begun(client: Client, gate: Hold, name: string, x: number): Promise<string> {
  const { prediction_id: id } = await client.create([{ x, before: gate.url(name) }]);
  await gate.arrived(name);
  return id;
}

test("a running prediction ends on the build that began it, and stays readable, with its event stream", async () => {
  await using gate = hold();
  await using server = await serve("running", ["--fronts", "2"]);
  const { client, cli } = server;
  const ids = [await begun(client, gate, "a", 1), await begun(client, gate, "b", 2)];
  const [first = "", second = ""] = ids;
  const stream = eventsOf(await client.watch(first));
  expect(await server.switchTo("v2")).toEqual(switched(named("v2")));
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(1003);
  // The earlier build still runs both.
  expect(await inRole(cli.pid, "engine")).toHaveLength(2);
  for (const id of ids) expect((await client.read(id)).status).toMatch(/ing$/);
  const waiting = client.end(first);
  expect(await client.cancel(second)).toMatchObject({ status: "failed", error_message: "Canceled" });
  gate.release("a");
  gate.release("b");
  const ended = await waiting;
  expect([ended.status, outputOf(ended)]).toEqual(["success", 3]);
  expect(store.isRight(ended, 1)).toBe(true);
  expect((await Array.fromAsync(stream)).at(-1)).toMatchObject({ event: "completed", data: ended });
  await until(async () => (await inRole(cli.pid, "engine")).length === 1);
  expect(await client.read(first)).toEqual(ended);
  expect((await client.read(second)).status).toBe("failed");
}, 60_000);

test("SIGHUP reloads as POST /reload does", async () => {
  await using server = await serve("hangup");
  const { client, cli } = server;
  cli.kill("SIGHUP");
  await cli.line("The reload found no new build");
  store.tag("hangup", "v2");
  cli.kill("SIGHUP");
  await until(async () => outputOf(await client.predict([{ x: 1 }])) === 1003);
  cli.kill("SIGTERM");
  expect(await cli.exited).toBe(0);
}, 60_000);

test("a second reload is refused while one runs", async () => {
  await using server = await serve("twice");
  store.tag("twice", "v2");
  const answers = await Promise.all([reload(server.admin), reload(server.admin)]);
  expect(answers.toSorted((a, b) => a.status - b.status)).toMatchObject([
    switched(named("v2")),
    { status: 409, ...problem("reload_refused", "reload") },
  ]);
}, 60_000);

test("of several models, only the model whose tag has moved is loaded again", async () => {
  await using server = await serve("several", ["texts"]);
  const { client, cli } = server;
  const engines = await inRole(cli.pid, "engine");
  const texts = async () => (await client.predictAt("/models/texts", [{ text: "a" }])).status;
  expect(await texts()).toBe("success");
  expect(await server.switchTo("v2")).toEqual(switched(named("v2")));
  expect([await texts(), outputOf(await client.predict([{ x: 1 }]))]).toEqual(["success", 1003]);
  await until(async () => (await inRole(cli.pid, "engine")).length === 2);
  expect((await inRole(cli.pid, "engine")).filter((pid) => engines.includes(pid))).toHaveLength(1);
}, 60_000);

test("of two changed models, one of which does not start, neither changes", async () => {
  store.tag("second", "v1");
  await using server = await serve("first", ["lab:second"], { BROKEN_BUILD: "v3" });
  store.tag("second", "v3");
  expect(await server.switchTo("v2")).toMatchObject({ status: 500, ...problem("reload_failed", "v3 is broken") });
  expect(outputOf(await server.client.predict([{ x: 1 }]))).toBe(3);
  store.tag("second", "v2");
  expect(await reload(server.admin)).toEqual(switched(named("v2"), named("v2")));
  expect(outputOf(await server.client.predict([{ x: 1 }]))).toBe(1003);
}, 60_000);

test("a front process that starts again after a reload has the new build", async () => {
  await using server = await serve("again");
  const { client, cli } = server;
  expect(await server.switchTo("v2")).toEqual(switched(named("v2")));
  const [front = 0] = await inRole(cli.pid, "front");
  process.kill(front, "SIGKILL");
  await cli.line("is ready again");
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(1003);
}, 60_000);

test("a front process that is killed while a reload opens a build leaves the server with one of both builds, and the next reload switches it", async () => {
  await using server = await serve("killed");
  const { client, cli } = server;
  const engines = () => inRole(cli.pid, "engine");
  const [front = 0] = await inRole(cli.pid, "front");
  store.tag("killed", "v2");
  cli.kill("SIGHUP");
  await until(async () => (await engines()).length === 2);
  process.kill(front, "SIGKILL");
  await cli.line("is ready again");
  const isOver = (line: string) => line.includes("The reload failed") || line.includes("has finished");
  await until(() => cli.lines.some(isOver));
  await until(async () => (await engines()).length === 1);
  const { outputs, model } = await client.predict([{ x: 1 }]);
  expect(outputs).toMatchObject([{ y: model?.digest.includes(store.names.v2.slice(4)) ? 1003 : 3 }]);
  expect((await reload(server.admin)).status).toBe(200);
  expect(outputOf(await client.predict([{ x: 1 }]))).toBe(1003);
  await until(async () => (await engines()).length === 1);
}, 60_000);

test("a reload is refused if the file of --models has other names", async () => {
  await using dir = await tempDir();
  const file = dir.join("models.toml");
  await Bun.write(file, '[[model]]\nmodel = "lab:names"\n');
  store.tag("names", "v1");
  await using cli = store.start(["--admin-port", "0", "--store", "memory", "--models", file]);
  const admin = await adminOf(cli);
  await cli.line("Listening on");
  await Bun.write(file, '[[model]]\nmodel = "lab:names"\nname = "other"\n');
  expect(await reload(admin)).toMatchObject({ status: 409, ...problem("reload_refused", "") });
}, 60_000);

test.skipIf(!hasRedis)(
  `with --queue a reload is refused, because each build has its own queue${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    await using server = await serve("queued", ["--queue", redis.url, "--store", "memory"]);
    expect(await server.switchTo("v2")).toMatchObject({ status: 409, ...problem("reload_refused", "--queue") });
    expect(outputOf(await server.client.predict([{ x: 1 }]))).toBe(3);
  },
  60_000,
);

test("no request fails while reloads switch builds under load, one of which does not start", async () => {
  await using server = await serve("live", ["--fronts", "2"], { BROKEN_BUILD: "v3" });
  const moves = ["v2", "v3", "v1", "v2"] as const;
  const { client, admin } = server;
  const found = await switchUnderLoad({ store, url: client.url, adminUrl: admin.url, clients: 16, moves });
  expect(found.failures).toEqual([]);
  expect(found.wrong).toEqual([]);
  expect(found.reloads).toEqual([
    expect.stringMatching(/^200 lab@sha256:/),
    "500 urn:sconce:problem:reload_failed",
    expect.stringMatching(/^200 lab@sha256:/),
    expect.stringMatching(/^200 lab@sha256:/),
  ]);
  expect(new Set(found.answers.map(({ model }) => model?.digest)).size).toBe(2);
}, 120_000);
