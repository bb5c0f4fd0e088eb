/**
 * A server loads a model at its first prediction, and unloads it when it is idle or when another model needs its
 * place.
 */
import { describe, expect, test } from "bun:test";
import { adminOf, clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  const named = (name: string, factor: number) =>
    writeModel(dir, modelText({ name: `"${name}"`, postprocess: `({ y }) => ({ y: ${factor} * y.data[0] })` }), name);
  const needy = await writeModel(dir, modelText({ name: '"needy"', setup }), "needy");
  const store = await storeWith("lab", await named("ten", 10), await named("hundred", 100), needy);
  return store.starting(["--admin-port", "0"]);
});

/**
 * The `setup` of a model. Environment variables let it fail or wait; BREAKS names the role of the processes in which
 * it fails.
 */
const setup = `async () => {
  const { existsSync, readFileSync } = await import("node:fs");
  const { SETUP_NEEDS, SETUP_URL, BREAKS } = process.env;
  const role = /\\[(\\w+)\\]/.exec(readFileSync("/proc/self/cmdline", "utf8"))?.[1];
  if (role !== undefined && role === BREAKS) throw new Error("broken in " + role);
  if (role !== "engine") return;
  if (SETUP_NEEDS !== undefined && !existsSync(SETUP_NEEDS)) throw new Error("no tokens");
  if (SETUP_URL !== undefined) await fetch(SETUP_URL);
}`;

async function statesOf(client: Client): Promise<Record<string, string>> {
  const { models } = (await client.json("/models")) as { models: { name: string; state: string }[] };
  return Object.fromEntries(models.map(({ name, state }) => [name, state]));
}

const move = async (server: RunningCli, name: string, what: "load" | "unload") =>
  (await adminOf(server)).fetch(`/v2/repository/models/${name}/${what}`, { method: "POST" });

describe("--keep-alive", () => {
  test("loads a model once for many first predictions, and tells their clients that the model is being loaded", async () => {
    await using server = store.start(["lab", "ten", "--keep-alive", "600"]);
    const client = await clientOf(server);
    expect(await statesOf(client)).toEqual({ lab: "unloaded", ten: "unloaded" });
    expect(await inRole(server.pid, "engine")).toEqual([]);
    // Requests that only read do not load the model.
    for (const path of ["", "/openapi.json", "/health/ready", "/predictions/none"])
      await client.fetch(`/models/ten${path}`);
    expect(await inRole(server.pid, "engine")).toEqual([]);
    const events = client.at("/models/ten/predictions").stream([{ x: 1 }]);
    const outputs = await Promise.all(Array.from({ length: 20 }, (_, x) => client.predictAt("/models/ten", [{ x }])));
    expect(outputs.map((body) => body.outputs)).toEqual(
      Array.from({ length: 20 }, (_, x) => [{ y: 10 * (2 * x + 1) }]),
    );
    const names: string[] = [];
    for await (const { event } of eventsOf(await events)) names.push(event);
    expect(names).toEqual(["start", "output", "completed"]);
    expect(await inRole(server.pid, "engine")).toHaveLength(1);
    expect(await statesOf(client)).toEqual({ lab: "unloaded", ten: "ready" });
  });

  test("unloads a model that is idle, and its next prediction loads it again", async () => {
    await using server = store.start(["ten", "--keep-alive", "0.2"]);
    const client = await clientOf(server);
    expect((await move(server, "ten", "load")).status).toBe(200);
    expect(await inRole(server.pid, "engine")).toHaveLength(1);
    await until(async () => (await statesOf(client)).ten === "unloaded");
    expect(await inRole(server.pid, "engine")).toEqual([]);
    expect(await client.status("/health/ready")).toBe(200);
    expect(await client.json("/v2/models/ten/ready")).toEqual({ ready: true });
    // A client may unload the model that is already unloaded.
    expect((await move(server, "ten", "unload")).status).toBe(200);
    expect(await client.json("/v2/models/ten/ready")).toEqual({ ready: false });
    expect(await (await client.fetch("/v2/repository/index", { method: "POST" })).json()).toMatchObject([
      { state: "UNAVAILABLE" },
    ]);
    for (let x = 0; x < 2; x++) {
      expect((await client.predictAt("", [{ x }])).outputs).toEqual([{ y: 10 * (2 * x + 1) }]);
      await until(async () => (await statesOf(client)).ten === "unloaded");
    }
  });

  test("unloads no model while it works", async () => {
    await using held = hold();
    await using server = store.start(["lab", "--keep-alive", "0.05"]);
    const client = await clientOf(server);
    const { prediction_id: id } = await client.create([{ x: 1, after: held.url("last") }]);
    await held.arrived("last");
    const unloading = move(server, "lab", "unload");
    expect(await statesOf(client)).toEqual({ lab: "ready" });
    held.release("last");
    expect((await client.end(id)).outputs).toMatchObject([{ y: 3 }]);
    expect((await unloading).status).toBe(200);
  });
});

test("--max-loaded unloads the model whose last use is the oldest", async () => {
  await using server = store.start(["lab", "ten", "hundred", "--max-loaded", "2"]);
  const client = await clientOf(server);
  for (const name of ["lab", "ten"]) expect((await move(server, name, "load")).status).toBe(200);
  expect(await statesOf(client)).toEqual({ lab: "ready", ten: "ready", hundred: "unloaded" });
  expect((await client.predictAt("/models/ten", [{ x: 1 }])).status).toBe("success");
  expect((await client.predictAt("/models/lab", [{ x: 1 }])).status).toBe("success");
  expect((await client.predictAt("/models/hundred", [{ x: 1 }])).outputs).toEqual([{ y: 300 }]);
  expect(await statesOf(client)).toEqual({ lab: "ready", ten: "unloaded", hundred: "ready" });
  // Six concurrent predictions with three models; two models fit, so each waits for its turn.
  const paths = ["ten", "hundred", "lab", "ten", "hundred", "lab"].map((name) => `/models/${name}`);
  const ends = await Promise.all(paths.map((path) => client.predictAt(path, [{ x: 2 }])));
  expect(ends.map(({ status }) => status)).toEqual(paths.map(() => "success"));
  expect((await inRole(server.pid, "engine")).length).toBeLessThanOrEqual(2);
});

test("models are loaded and unloaded by requests, as in Triton", async () => {
  await using server = store.start(["lab", "ten"]);
  const client = await clientOf(server);
  const index = async () => (await client.fetch("/v2/repository/index", { method: "POST" })).json();
  expect(await index()).toMatchObject([{ state: "READY" }, { state: "READY" }]);
  expect((await move(server, "ten", "unload")).status).toBe(200);
  expect(await index()).toMatchObject([{ state: "READY" }, { state: "UNAVAILABLE", reason: "unloaded" }]);
  const ready = async (name: string) => await client.status(`/v2/models/${name}/ready`);
  expect([await ready("ten"), await ready("lab")]).toEqual([503, 200]);
  // A prediction loads the model that a request has unloaded.
  expect((await client.predictAt("/models/ten", [{ x: 1 }])).outputs).toEqual([{ y: 30 }]);
  expect(await ready("ten")).toBe(200);
  expect((await move(server, "ten", "unload")).status).toBe(200);
  expect(await inRole(server.pid, "engine")).toHaveLength(1);
  expect((await move(server, "ten", "load")).status).toBe(200);
  expect(await index()).toMatchObject([{ state: "READY" }, { state: "READY" }]);
  const missing = await move(server, "none", "load");
  expect(missing.status).toBe(404);
  expect(await missing.json()).toEqual({ error: expect.stringContaining("lab, ten") });
});

test("a load that fails is reported to the predictions that waited, and later ones are refused for a while", async () => {
  await using server = store.start(["lab", "ten", "--keep-alive", "600", "--device", "cuda:7"]);
  const client = await clientOf(server);
  const waited = await client.predictAt("/models/ten", [{ x: 1 }]);
  expect(waited).toMatchObject({ status: "failed", error_message: expect.stringContaining("could not be loaded") });
  const refused = await client.at("/models/ten/predictions").post([{ x: 1 }]);
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("10");
  expect(await statesOf(client)).toEqual({ lab: "unloaded", ten: "failed" });
  expect((await move(server, "ten", "load")).status).toBe(503);
});

test("a request to load a model tries again, even after a failed load", async () => {
  await using server = store.start(["lab", "needy", "--keep-alive", "600"], { SETUP_NEEDS: dir.join("tokens") });
  const client = await clientOf(server);
  expect((await move(server, "needy", "load")).status).toBe(503);
  expect(await server.line("The model needy:latest@")).toContain("no tokens");
  await Bun.write(dir.join("tokens"), "");
  expect((await move(server, "needy", "load")).status).toBe(200);
  expect(await statesOf(client)).toMatchObject({ needy: "ready" });
});

test("a model that is being loaded is unloaded on request", async () => {
  await using held = hold();
  await using server = store.start(["lab", "needy", "--keep-alive", "600"], { SETUP_URL: held.url("setup") });
  const client = await clientOf(server);
  const loading = move(server, "needy", "load");
  await held.arrived("setup");
  const unloading = move(server, "needy", "unload");
  await until(async () => (await statesOf(client)).needy === "loading");
  held.release("setup");
  expect((await loading).status).toBe(200);
  expect((await unloading).status).toBe(200);
  expect(await statesOf(client)).toMatchObject({ needy: "unloaded" });
});

test("a model that the HTTP process cannot open leaves its place to other models", async () => {
  await using server = store.start(["needy", "lab", "--max-loaded", "1"], { BREAKS: "front" });
  const client = await clientOf(server);
  await move(server, "needy", "load");
  expect(await statesOf(client)).toEqual({ needy: "failed", lab: "unloaded" });
  expect((await client.predictAt("/models/lab", [{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
});

test("two HTTP processes share the engine process of a model, and both leave it before it is unloaded", async () => {
  await using server = store.start(["lab", "ten", "--fronts", "2", "--keep-alive", "0.2"]);
  const client = await clientOf(server);
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, x) => client.predictAt("/models/ten", [{ x }], { Connection: "close" })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(["success"]));
  expect(await inRole(server.pid, "engine")).toHaveLength(1);
  await until(async () => (await inRole(server.pid, "engine")).length === 0);
});
