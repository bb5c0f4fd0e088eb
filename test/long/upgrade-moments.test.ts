/**
 * Upgrades at a bad moment: processes of the newer or the older server are killed, or the older server is already
 * stopping.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { ownerOf } from "../../src/server/predictions/ids.ts";
import { type Build, type BuildsStore, storeOfBuilds } from "../helpers/builds.ts";
import { clientOf, type RunningCli, startCli } from "../helpers/cli.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { freePort } from "../helpers/free-port.ts";
import { hold } from "../helpers/hold.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";
import { descendants, inRole, isRunning, until } from "../helpers/running.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

let dir: TempDir;
let store: TestStore;
let builds: BuildsStore;

beforeAll(async () => {
  dir = await tempDir();
  const setup =
    "async () => { if (process.env.SETUP_URL !== undefined) await fetch(process.env.SETUP_URL + process.pid); }";
  builds = await storeOfBuilds();
  store = await storeWith("lab", await writeModel(dir, modelText({ name: '"slow"', setup }), "slow"));
});

afterAll(async () => {
  await builds[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

interface Started {
  readonly model: string;
  readonly port: number;
  /** Folder for temporary files. Servers with the same folder find each other's control socket there. */
  readonly place: TempDir;
  readonly more?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const serve = ({ model, port, place, more = [], env = {} }: Started): RunningCli => {
  const options = ["--host", "127.0.0.1", "-p", String(port), ...more];
  if (!more.includes("--store")) options.push("--store", "memory");
  return startCli(["serve", model, ...options], { env: { SCONCE_HOME: store.home, TMPDIR: place.path, ...env } });
};

/** Whether the process listens on the port, by Linux's /proc. */
function listens(pid: number, port: number): boolean {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const inodes = readFileSync(`/proc/${pid}/net/tcp`, "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
      return state === "0A" && local.endsWith(suffix) ? [`socket:[${inode}]`] : [];
    });
  return readdirSync(`/proc/${pid}/fd`).some((name) => inodes.includes(linkOf(`/proc/${pid}/fd/${name}`)));
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    // The process has closed this descriptor meanwhile.
    return "";
  }
}

test("if an HTTP process of the newer server is killed during its setup, its successor opens no port before the server is ready", async () => {
  await using place = await tempDir();
  await using gate = hold();
  const port = await freePort();
  await using first = serve({ model: "slow", port, place });
  const client = await clientOf(first);
  await using second = serve({ model: "slow", port, place, env: { SETUP_URL: gate.url("") } });
  const front = async () => (await inRole(second.pid, "front"))[0];
  await until(async () => (await front()) !== undefined);
  const killed = await front();
  await gate.arrived(String(killed));
  process.kill(Number(killed), "SIGKILL");
  await until(async () => ![undefined, killed].includes(await front()));
  const again = await front();
  await gate.arrived(String(again));
  const headers = { "Content-Type": "application/json", Connection: "close", Prefer: "wait" };
  const statuses: number[] = [];
  for (let i = 0; i < 20; i++) {
    const answer = await client.fetch("/predictions", { method: "POST", headers, body: '[{"x": 1}]' });
    statuses.push(answer.status);
    await answer.text();
  }
  expect(new Set(statuses)).toEqual(new Set([200]));
  for (const pid of [again, ...(await inRole(second.pid, "engine"))]) gate.release(String(pid));
  await second.line("Listening on");
  expect(await first.exited).toBe(0);
}, 120_000);

test("an older server that is finishing leaves ids that clients choose to the newer server, beside an earlier build that also finishes", async () => {
  await using place = await tempDir();
  await using gate = hold();
  const port = await freePort();
  const run = (build: Build) => {
    const options = ["--host", "127.0.0.1", "-p", String(port), "--store", place.join("p.sqlite")];
    return startCli(["serve", `lab:${build}`, ...options], { env: { SCONCE_HOME: builds.home, TMPDIR: place.path } });
  };
  {
    await using killed = run("v1");
    const client = await clientOf(killed);
    await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
    await gate.arrived("a");
    const processes = await descendants(killed.pid);
    killed.kill("SIGKILL");
    await until(() => !processes.some(isRunning));
  }
  await using second = run("v2");
  await second.line("finishes the predictions that it accepted");
  await second.line("Listening on");
  // The kernel assigns this connection to the second server, which gets the request only later.
  const kept = connect({ host: "127.0.0.1", port });
  await new Promise((resolve) => kept.once("connect", resolve));
  await using third = run("v2");
  await third.line("Listening on");
  const body = '[{"x": 2}]';
  const answer = new Response(Readable.toWeb(kept) as ReadableStream<Uint8Array>).text();
  kept.write(
    `PUT /predictions/${crypto.randomUUID()} HTTP/1.1\r\nHost: 127.0.0.1\r\nPrefer: wait\r\nConnection: close\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  expect(await answer).toMatch(/^HTTP\/1.1 200 .*"status":"success","outputs":\[\{"y":1005/s);
  gate.release("a");
  expect(await second.exited).toBe(0);
}, 120_000);

test("a front of the older server that starts again leaves the port to the newer server, and finishes its predictions", async () => {
  await using place = await tempDir();
  await using gate = hold();
  const port = await freePort();
  const more = ["--store", place.join("p.sqlite"), "--fronts", "2"];
  await using first = serve({ model: "lab", port, place, more });
  const client = await clientOf(first);
  const idAt = async (index: number) => {
    for (;;) {
      const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
      if (id.startsWith(ownerOf(index))) return id;
    }
  };
  const id = await idAt(0);
  // Idle connections keep the ports of both HTTP processes open.
  const idle = Array.from({ length: 16 }, () => connect({ host: "127.0.0.1", port }).on("error", () => {}));
  await gate.arrived("a");
  await using second = serve({ model: "slow", port, place, more: [...more, "--replace"] });
  await first.line("The newer server takes over");
  const before = await inRole(first.pid, "front");
  process.kill(before[0] ?? 0, "SIGKILL");
  await first.line("front process 1 is ready again");
  const fronts = await inRole(first.pid, "front");
  const started = fronts.filter((pid) => !before.includes(pid));
  expect(started.map((pid) => listens(pid, port))).toEqual([false]);
  gate.release("a");
  for (const each of idle) each.destroy();
  expect(await first.exited).toBe(0);
  await second.line("The older server has ended");
  const end = await client.fetch(`/predictions/${id}`, { headers: { Connection: "close" } });
  expect(await end.json()).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
}, 120_000);

test("an older server ends although the front that should close its port next is dead", async () => {
  await using place = await tempDir();
  const port = await freePort();
  await using first = serve({ model: "lab", port, place, more: ["--fronts", "2"] });
  const client = await clientOf(first);
  const [closedSecond = 0, closedFirst = 0] = await inRole(first.pid, "front");
  // Idle connections keep the ports of both HTTP processes open.
  const idle = Array.from({ length: 16 }, () => connect({ host: "127.0.0.1", port }).on("error", () => {}));
  await client.fetch("/health/live");
  await using second = serve({ model: "lab", port, place });
  await first.line("The newer server takes over");
  // After each death the supervisor waits longer before the next start, so after the fourth the HTTP process stays dead
  // for a while.
  let killed = closedSecond;
  let seen = 0;
  for (let deaths = 1; deaths < 4; deaths++) {
    seen = first.lines.length;
    process.kill(killed, "SIGKILL");
    await first.line("front process 1 is ready again", seen);
    killed = (await inRole(first.pid, "front")).find((pid) => pid !== closedFirst) ?? 0;
  }
  seen = first.lines.length;
  process.kill(killed, "SIGKILL");
  await first.line("front process 1 was ended by SIGKILL", seen);
  // The supervisor waits until this process closes its port. Its death ends that wait, and the supervisor next asks the
  // process that is already dead.
  process.kill(closedFirst, "SIGKILL");
  expect(await first.exited).toBe(0);
  for (const each of idle) each.destroy();
  await second.line("The older server has ended");
}, 120_000);

test("after the death of the newer server, new connections reach all HTTP processes of the older one again", async () => {
  await using place = await tempDir();
  await using gate = hold();
  const port = await freePort();
  await using first = serve({ model: "lab", port, place, more: ["--fronts", "2"] });
  const client = await clientOf(first);
  const post = async (headers: Readonly<Record<string, string>>, body: unknown) => {
    const init = { method: "POST", headers: { "Content-Type": "application/json", ...headers } };
    const answer = await client.fetch("/predictions", { ...init, body: JSON.stringify([body]) });
    return { answer, front: answer.headers.get("location")?.split("/").at(-1)?.[0] ?? "" };
  };
  // An open event stream keeps the first HTTP process's port open.
  const held: Response[] = [];
  for (let front = ""; front !== ownerOf(0); ) {
    const stream = await post({ Accept: "text/event-stream" }, { x: 1, before: gate.url("a") });
    ({ front } = stream);
    if (front === ownerOf(0)) held.push(stream.answer);
    else await stream.answer.body?.cancel();
  }
  const [, other = 0] = await inRole(first.pid, "front");
  await using second = serve({ model: "lab", port, place, more: ["--fronts", "1"] });
  await first.line("The newer server takes over");
  await until(() => !listens(other, port));
  const processes = await descendants(second.pid);
  second.kill("SIGKILL");
  await until(() => !processes.some(isRunning));
  await first.line("this one goes on");
  await until(() => listens(other, port));
  const fronts = new Set<string>();
  for (let i = 0; i < 40; i++) fronts.add((await post({ Connection: "close" }, { x: i })).front);
  expect(fronts).toEqual(new Set([ownerOf(0), ownerOf(1)]));
  gate.release("a");
  expect(await held[0]?.text()).toContain("event: completed");
}, 120_000);

test("an older server that is already stopping finishes its predictions after the newer one has taken over", async () => {
  await using place = await tempDir();
  await using gate = hold();
  const port = await freePort();
  await using first = serve({ model: "lab", port, place });
  const client = await clientOf(first);
  const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }], { Connection: "close" });
  await gate.arrived("a");
  first.kill("SIGTERM");
  await first.line("Stopping");
  await using second = serve({ model: "lab", port, place });
  await first.line("The newer server takes over");
  await second.line("Listening on");
  const read = async () => {
    const answer = await client.fetch(`/predictions/${id}`, { headers: { Connection: "close" } });
    return (await answer.json()) as PredictionBody;
  };
  const [front = 0] = await inRole(first.pid, "front");
  await until(() => !listens(front, port));
  expect(await read()).toMatchObject({ status: "pending" });
  // A stream, since the older server ends right after the prediction, and a later GET might find no server.
  const events = await client.fetch(`/predictions/${id}/events`, { headers: { Connection: "close" } });
  gate.release("a");
  const text = await events.text();
  expect(text).toContain("event: completed");
  expect(text).toContain('"outputs":[{"y":3,');
  expect(await first.exited).toBe(0);
}, 120_000);
