/** POST /reload on the admin port starts a newer server. The answer says whether the newer server has taken over. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFile, rm } from "node:fs/promises";
import { ModelStore } from "../src/package/store/store.ts";
import { type BuildsStore, storeOfBuilds } from "./helpers/builds.ts";
import { follow, type RunningCli, sources, startCli } from "./helpers/cli.ts";
import { Client } from "./helpers/client.ts";
import { freePort } from "./helpers/free-port.ts";
import { machineEnv } from "./helpers/machine.ts";
import { isRunning, until } from "./helpers/running.ts";
import { tempDir } from "./helpers/temp-dir.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

const urlIn = (line: string) => new URL(/http:\S+/.exec(line)?.[0] ?? "");
const adminOf = async (server: RunningCli) => new Client(urlIn(await server.line("Admin port")));

function serve(args: readonly string[], env: Readonly<Record<string, string>>): RunningCli {
  const options = ["--host", "127.0.0.1", "--admin-port", "0", "--store", "memory"];
  return startCli(["serve", ...args, ...options], { env: { SCONCE_HOME: store.home, ...env } });
}

async function reload(admin: Client, headers: Readonly<Record<string, string>> = {}) {
  const answer = await admin.fetch("/reload", { method: "POST", headers });
  return { status: answer.status, body: (await answer.json()) as Readonly<Record<string, unknown>> };
}

test("a reload answers when the newer server has taken over, which serves the build that the tag names now", async () => {
  await using dir = await tempDir();
  const port = freePort();
  const models = new ModelStore(store.home);
  models.tag("lab:v1", "lab:live");
  await using first = serve(["lab:live", "-p", String(port), "--fronts", "2"], { TMPDIR: dir.path });
  const client = new Client(urlIn(await first.line("Listening on")));
  const predicted = async () => (await client.predict([{ x: 1 }], { Connection: "close" })).outputs?.[0]?.y;
  expect(await predicted()).toBe(3);
  models.tag("lab:v2", "lab:live");
  const { status, body } = await reload(await adminOf(first), { Prefer: "wait=60" });
  const pid = Number(body.pid);
  try {
    expect({ status, body }).toEqual({ status: 200, body: { status: "ready", pid: expect.any(Number) } });
    expect(await predicted()).toBe(1003);
    expect(await first.exited).toBe(0);
  } finally {
    if (isRunning(pid)) process.kill(pid, "SIGTERM");
    await until(() => !isRunning(pid));
  }
}, 60_000);

test("if the newer server does not start, the answer has the reason, and the older server continues", async () => {
  await using dir = await tempDir();
  const config = dir.join("sconce.toml");
  await Bun.write(config, "");
  const models = new ModelStore(store.home);
  models.tag("lab:v1", "lab:next");
  const args = ["lab:next", "-p", String(freePort()), "--config", config];
  await using server = serve(args, { TMPDIR: dir.path, BROKEN_BUILD: "v2" });
  const client = new Client(urlIn(await server.line("Listening on")));
  const admin = await adminOf(server);
  const failed = async (detail: string) =>
    expect(await reload(admin, { Prefer: "wait" })).toMatchObject({
      status: 500,
      body: { type: "urn:sconce:problem:upgrade_failed", detail: expect.stringContaining(detail) },
    });
  models.tag("lab:v2", "lab:next");
  await failed("v2 is broken");
  // The configuration is wrong, so the newer server ends before it connects to the older.
  await Bun.write(config, "prt = 1\n");
  await failed("it ended with 2 before it was ready");
  await server.line("prt");
  await server.line("The newer server did not start, and this one goes on: it ended with 2");
  // A newer server that does not start is no fault of this server, so the log has no stack.
  expect(server.lines.join("\n")).not.toContain("admin.ts");
  expect(await client.predict([{ x: 1 }])).toMatchObject({ outputs: [{ y: 3 }] });
  await Bun.write(config, "");
  const [first, second] = await Promise.all([reload(admin), reload(admin)]);
  expect([first.status, second.status].sort()).toEqual([202, 409]);
  await server.line("The newer server did not start", server.lines.length);
}, 60_000);

test("a server whose program was deleted answers that it cannot start another, and continues", async () => {
  await using dir = await tempDir();
  const bun = dir.join("bun");
  await copyFile(process.execPath, bun);
  const args = [
    "serve",
    "lab:v1",
    "--host",
    "127.0.0.1",
    "-p",
    String(freePort()),
    "--admin-port",
    "0",
    "--store",
    "memory",
  ];
  const command = [bun, ...sources.command.slice(1), ...args];
  const { PATH = "" } = process.env;
  const env = { PATH, HOME: dir.path, ...machineEnv, SCONCE_HOME: store.home, TMPDIR: dir.path };
  await using server = follow(
    Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe", detached: true }),
  );
  const client = new Client(urlIn(await server.line("Listening on")));
  await rm(bun);
  expect(await reload(await adminOf(server))).toMatchObject({
    status: 500,
    body: { detail: expect.stringContaining("it cannot be started: ") },
  });
  server.kill("SIGHUP");
  await server.line("No newer server is started, and this one goes on: ");
  expect(await client.predict([{ x: 1 }])).toMatchObject({ outputs: [{ y: 3 }] });
}, 60_000);

const refused = (reason: string) => ({
  status: 409,
  body: { type: "urn:sconce:problem:upgrade_refused", detail: expect.stringContaining(reason) },
});

test("a server with port 0 refuses", async () => {
  await using server = serve(["lab:v1", "-p", "0"], {});
  await server.line("Listening on");
  expect(await reload(await adminOf(server))).toMatchObject(refused("--port 0"));
}, 60_000);
