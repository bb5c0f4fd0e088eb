/** A front process that starts again answers for each model as far as the model works, and waits for none. */
import { expect, test } from "bun:test";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  // While the file that the variable BREAK names exists, the engine process dies in `setup`.
  const setup = `async () => {
    const isEngine = process.argv.some((each) => each.includes("[engine]"));
    if (isEngine && (await Bun.file(process.env.BREAK ?? "/none").exists())) process.kill(process.pid, "SIGKILL");
  }`;
  const crashing = modelText({ name: '"crashing"', setup });
  return storeWith("lab", await writeModel(dir, crashing, "crashing"));
});

const outputsOf = async (client: Client, model: string) =>
  (await client.predictAt(`/models/${model}`, [{ x: 1 }], { Connection: "close" })).outputs;

async function killFront(server: RunningCli): Promise<void> {
  const [front = 0] = await inRole(server.pid, "front");
  process.kill(front, "SIGKILL");
  await server.line("front process 1 is ready again");
}

test("while the engine process of one model dies at each start, a front that starts again answers for the other", async () => {
  const mark = dir.join("break");
  await using server = store.start(["crashing", "lab", "--fronts", "1"], { BREAK: mark });
  const client = await clientOf(server);
  expect(await outputsOf(client, "crashing")).toMatchObject([{ y: 3 }]);
  await Bun.write(mark, "");
  for (const pid of await inRole(server.pid, "engine")) process.kill(pid, "SIGKILL");
  await until(() => server.lines.some((line) => /The engine process 2 of lab:\S+ is ready again/.test(line)));
  const deaths = () => server.lines.filter((line) => /The engine process 1 of crashing:\S+ was ended/.test(line));
  await until(() => deaths().length >= 2);
  await killFront(server);
  expect(await outputsOf(client, "lab")).toMatchObject([{ y: 3 }]);
  expect(await client.status("/health/ready")).toBe(200);
  expect(await client.status("/models/crashing/health/ready")).toBe(503);
  await Bun.file(mark).delete();
  await client.ready("/models/crashing/health/ready");
  expect(await outputsOf(client, "crashing")).toMatchObject([{ y: 3 }]);
}, 120_000);

test("after sconce rm of one of two served models, a front that starts again answers for the other", async () => {
  await using own = await storeWith("lab", "texts");
  await using server = own.start(["texts", "lab", "--fronts", "1"]);
  const client = await clientOf(server);
  expect((await own.cliHere(["rm", "texts"])).code).toBe(0);
  await killFront(server);
  expect(await outputsOf(client, "lab")).toMatchObject([{ y: 3 }]);
  const refused = await client.fetch("/models/texts/predictions", { method: "POST" });
  expect([refused.status, refused.headers.get("content-type")]).toEqual([503, "application/problem+json"]);
  expect(await client.status("/health/ready")).toBe(200);
}, 60_000);
