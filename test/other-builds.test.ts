/** One build of a model accepted predictions, its server was killed, and the next server has another build. */
import { expect, test } from "bun:test";
import { type Build, storeOfBuilds } from "./helpers/builds.ts";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import { fixture, type TempDir, tempDir } from "./helpers/fixture.ts";
import { type Hold, hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { descendants, isRunning, until } from "./helpers/running.ts";

const store = fixture(storeOfBuilds);

const serve = (tag: string, dir: TempDir): RunningCli => store.start([`lab:${tag}`, "--store", dir.join("p.sqlite")]);

/** Starts a server, lets it accept predictions for x = 0, 1 and 2, and kills it before they end. @returns their ids */
async function acceptedAndKilled(build: Build, dir: TempDir, gate: Hold): Promise<string[]> {
  await using server = serve(build, dir);
  const client = await clientOf(server);
  const created = await Promise.all([0, 1, 2].map((x) => client.create([{ x, before: gate.url("a") }])));
  await gate.arrived("a");
  const processes = await descendants(server.pid);
  server.kill("SIGKILL");
  await until(() => !processes.some(isRunning));
  return created.map(({ prediction_id: id }) => id);
}

test("the new build runs the unfinished predictions of the earlier build, and their records name the new build", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const ids = await acceptedAndKilled("v1", dir, gate);
  const [, , canceled = ""] = ids;
  await using server = serve("v2", dir);
  const client = await clientOf(server);
  expect(await client.cancel(canceled)).toMatchObject({ status: "failed", error_message: "Canceled" });
  gate.release("a");
  const ended = await Promise.all(ids.map((id) => client.end(id)));
  expect(ended.map(({ outputs }) => outputs?.[0]?.y)).toEqual([1001, 1003, undefined]);
  expect([0, 1].map((x) => ended[x] !== undefined && store.isRight(ended[x], x))).toEqual([true, true]);
}, 60_000);

test("inputs that do not fit the schema of the new build fail with a message", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const text = modelText({
    name: '"lab"',
    input: "z.object({ text: z.string() })",
    example: '{ text: "a" }',
    preprocess:
      "({ text }) => ({ x: tensor(Float32Array.of(text.length), []), steps: tensor(BigInt64Array.of(0n), []) })",
  });
  const folder = await writeModel(dir, text, "other");
  expect(await store.cliHere(["build", folder, "-t", "lab:other"])).toMatchObject({ code: 0 });
  const ids = await acceptedAndKilled("v1", dir, gate);
  gate.release("a");
  await using server = serve("other", dir);
  const client = await clientOf(server);
  for (const body of await Promise.all(ids.map((id) => client.end(id)))) {
    expect(body).toMatchObject({ status: "failed", error_message: expect.stringContaining("text") });
  }
  expect((await client.predict([{ text: "ab" }])).outputs).toMatchObject([{ y: 5 }]);
}, 60_000);
