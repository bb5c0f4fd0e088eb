/** One build of a model accepted predictions, its server was killed, and the next server has another build. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Build, type BuildsStore, beyond, storeOfBuilds } from "../helpers/builds.ts";
import { clientOf, type RunningCli, startCli } from "../helpers/cli.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { eventsOf } from "../helpers/events.ts";
import { type Hold, hold } from "../helpers/hold.ts";
import { descendants, isRunning, until } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

const serve = (build: Build, dir: TempDir, ...options: string[]): RunningCli =>
  startCli(["serve", `lab:${build}`, "--host", "127.0.0.1", "-p", "0", "--store", dir.join("p.sqlite"), ...options], {
    env: { SCONCE_HOME: store.home },
  });

const COUNT = 4;
const expected = (build: Build) => Array.from({ length: COUNT }, (_, x) => 2 * x + 1 + beyond[build]);

/**
 * Starts a server with the first build, lets it accept predictions, and kills it before they end. @returns their ids
 */
async function acceptedAndKilled(dir: TempDir, gate: Hold): Promise<string[]> {
  await using server = serve("v1", dir);
  const client = await clientOf(server);
  const created = await Promise.all(
    Array.from({ length: COUNT }, (_, x) => client.create([{ x, before: gate.url("a") }])),
  );
  await gate.arrived("a");
  const processes = await descendants(server.pid);
  server.kill("SIGKILL");
  await until(() => !processes.some(isRunning));
  return created.map(({ prediction_id: id }) => id);
}

const modelOf = ({ model }: PredictionBody) => `${model?.repository}:${model?.tag}`;

test("the build that accepted predictions finishes them, while the new build runs new ones", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const ids = await acceptedAndKilled(dir, gate);
  const [first = "", second = "", third = ""] = ids;
  await using server = serve("v2", dir);
  const client = await clientOf(server);
  const fresh = await client.predict([{ x: 1 }]);
  expect([fresh.outputs?.[0]?.y, modelOf(fresh)]).toEqual([1003, store.names.v2]);
  // The prediction cannot end before the gate opens, whichever process runs it.
  expect(await (await client.fetch(`/predictions/${first}`)).json()).toMatchObject({
    model: { tag: store.names.v1.slice(4) },
    status: expect.stringMatching(/ing$/),
  });
  const finishes = `${store.names.v1.slice(0, 3)}@sha256:${store.names.v1.slice(4)}`;
  await server.line(`${finishes}`);
  await until(async () => (await client.fetch(`/predictions/${third}/cancel`, { method: "POST" })).status === 200);
  const stream = eventsOf(await client.fetch(`/predictions/${second}/events`));
  gate.release("a");
  const ended = await Promise.all(ids.map((id) => client.end(id)));
  expect(ended.map(({ status }) => status)).toEqual(["success", "success", "failed", "success"]);
  expect(ended[2]).toMatchObject({ error_message: "Canceled" });
  expect(ended.map(({ outputs }) => outputs?.[0]?.y)).toEqual(expected("v1").with(2, undefined as never));
  expect(new Set(ended.map(modelOf))).toEqual(new Set([store.names.v1]));
  const events = await Array.fromAsync(stream);
  expect(events.at(-1)?.data).toMatchObject({ status: "success", model: { tag: store.names.v1.slice(4) } });
  // Only processes of the new build are left. The outcomes of the earlier build stay readable.
  await until(async () => (await descendants(server.pid)).length === 3);
  expect((await client.end(first)).outputs?.[0]?.y).toBe(1);
}, 60_000);

test("with --take-over the new build runs the predictions that an earlier build accepted, and the log says so", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const ids = await acceptedAndKilled(dir, gate);
  gate.release("a");
  await using server = serve("v2", dir, "--take-over");
  const client = await clientOf(server);
  const ended = await Promise.all(ids.map((id) => client.end(id)));
  expect(ended.map(({ outputs }) => outputs?.[0]?.y)).toEqual(expected("v2"));
  expect(new Set(ended.map(modelOf))).toEqual(new Set([store.names.v2]));
}, 60_000);

test.each([
  ["is not in the model store", "which is not in the model store"],
  ["does not start", "which does not start"],
])(
  "they fail with the reason when the build that accepted them %s",
  async (_, reason) => {
    await using dir = await tempDir();
    await using gate = hold();
    const ids = await acceptedAndKilled(dir, gate);
    gate.release("a");
    await using copy = await storeWith();
    await Bun.$`cp -a ${store.home}/. ${copy.home}`.quiet();
    const env = { SCONCE_HOME: copy.home, BROKEN_BUILD: "v1" };
    if (reason.includes("store")) {
      await using removal = startCli(["rm", "lab:v1"], { env });
      expect(await removal.exited).toBe(0);
    }
    await using server = startCli(
      ["serve", "lab:v2", "--host", "127.0.0.1", "-p", "0", "--store", dir.join("p.sqlite")],
      { env },
    );
    const client = await clientOf(server);
    await server.line("4 predictions that another build accepted have failed; --take-over would run them");
    const ended = await Promise.all(ids.map((id) => client.end(id)));
    for (const each of ended) {
      expect(each).toMatchObject({ status: "failed", model: { tag: store.names.v1.slice(4) } });
      expect(each.error_message).toStartWith(`This was accepted by ${store.names.v1}, ${reason}`);
    }
  },
  60_000,
);
