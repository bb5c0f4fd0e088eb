/** `sconce dev` serves a model folder, and reloads it after changes. */
import { expect, test } from "bun:test";
import { copyFile, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { clientOf, startCli } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { descendants, inRole, isRunning, until } from "./helpers/running.ts";
import { modelFolder } from "./helpers/server.ts";

let client: Client;

/** A model.ts that answers with `text` and with the text of a file outside its folder. */
const giving = (text: string, more = "") =>
  `import { greeting } from "../shared/greeting.ts";${more}\n${modelText({ output: "z.object({ y: z.string() })", postprocess: `({ y }) => ({ y: greeting + " ${text} " + y.data[0] })` })}`;

const save = (text: string) => Bun.write(dir.join("model", "model.ts"), text);

/** Changes a file. Resolves with the next log line that contains `part`. */
async function next(part: string, change: () => Promise<unknown>): Promise<string> {
  const { length } = dev.lines;
  await change();
  return dev.line(part, length);
}

const answerSchema = z.object({ outputs: z.array(z.object({ y: z.string() })) });

const ask = () => client.post([{ x: 1 }], { Prefer: "wait" });

async function predicted(): Promise<string> {
  const answer = await ask();
  expect(answer.status).toBe(200);
  return answerSchema.parse(await answer.json()).outputs[0]?.y ?? "";
}

const dir = fixture(tempDir);
const dev = fixture(async () => {
  await Bun.write(dir.join("shared", "greeting.ts"), 'export const greeting = "hello";');
  await writeModel(dir, giving("first", 'throw new Error("not yet");'), "model");
  return startCli(["dev", dir.join("model"), "--port", "0", "--host", "127.0.0.1"]);
});

test("logs an error of the first code in one line with its place, and serves when the code works", async () => {
  const line = await dev.line("ERROR");
  expect(line).toContain("the model's code failed while loading: not yet (model.ts:1); ");
  expect(line).toEndWith("a change of a file starts the server");
  await save(giving("first"));
  client = await clientOf(dev);
  expect(await predicted()).toBe("hello first 3");
});

test("reloads changed code and imports, keeps the loaded weights, and answers every request meanwhile", async () => {
  let isOver = false;
  const answers = new Set([await predicted()]);
  const engines = () => inRole(dev.pid, "engine");
  const before = await engines();
  const asking = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!isOver) answers.add(await predicted());
    }),
  );
  const change = () => Bun.write(dir.join("shared", "greeting.ts"), 'export const greeting = "bye";');
  expect(await next("Reloaded", change)).toContain("the weights stayed loaded");
  expect(await predicted()).toBe("bye first 3");
  isOver = true;
  await asking;
  expect([...answers]).toEqual(["hello first 3", "bye first 3"]);
  expect(await engines()).toEqual(before);
});

test("a crashed engine process starts again with the weights that stayed loaded, and runs the new code", async () => {
  const [engine = Number.NaN] = await inRole(dev.pid, "engine");
  await next("is ready again", async () => process.kill(engine, "SIGKILL"));
  expect(await predicted()).toBe("bye first 3");
});

test("keeps serving the last working code after an error", async () => {
  const unfit = await next("ERROR", () => save(modelText({ preprocess: '() => { throw new Error("nor so"); }' })));
  expect(unfit).toMatch(/preprocess failed: nor so \(model\.ts:\d+\); the last working version is still served/);
  expect(await predicted()).toBe("bye first 3");
  await next("Unchanged", () => save(giving("first")));
});

test("keeps the last working weights after an error, and serves corrected weights", async () => {
  const weights = dir.join("model", "lab.pt");
  const line = await next("ERROR", () => Bun.write(weights, "no weights"));
  expect(line).toContain("the last working version is still served");
  await next("Reloaded", () => copyFile(join(modelFolder("lab"), "lab.pt"), weights));
  expect(await predicted()).toBe("bye first 3");
});

test("Ctrl-C ends all processes in order", async () => {
  const pids = await descendants(dev.pid);
  dev.kill("SIGINT");
  expect(await dev.exited).toBe(0);
  expect(dev.lines.at(-1)).toContain("Stopped");
  await until(() => !pids.some(isRunning));
});

test("a kill leaves no process, and the next start removes the temporary files", async () => {
  const tmp = dir.join("tmp");
  await mkdir(tmp);
  const start = () =>
    startCli(["dev", dir.join("model"), "--port", "0", "--host", "127.0.0.1"], { env: { TMPDIR: tmp } });
  await using killed = start();
  await killed.line("Watching");
  const pids = await descendants(killed.pid);
  killed.kill("SIGKILL");
  await until(() => !pids.some(isRunning));
  const folders = async () => (await readdir(tmp)).filter((name) => name.startsWith("sconce-run-"));
  const left = await folders();
  expect(left).not.toEqual([]);
  await using other = start();
  await other.line("Watching");
  expect((await folders()).filter((name) => left.includes(name))).toEqual([]);
});
