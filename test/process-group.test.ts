import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { ProcessGroup } from "../bench/peers/process-group.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

function start(folder: TempDir, script: string): ProcessGroup {
  return new ProcessGroup({
    command: ["sh", "-c", script],
    env: {},
    cwd: folder.path,
    log: folder.join("log"),
    stopMs: 300,
  });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await Bun.sleep(10);
}

test("what a process started ends with it, also when that one has left already", async () => {
  await using folder = await tempDir();
  const log = () => readFile(folder.join("log"), "utf8").catch(() => "");
  const group = start(folder, "sleep 1000 & echo $!");
  await until(async () => group.hasEnded && /\d\n/.test(await log()));
  const left = Number(await log());
  expect(isRunning(left)).toBe(true);
  await group[Symbol.asyncDispose]();
  await until(() => !isRunning(left));
});

test("a process that does not heed SIGTERM is ended nevertheless", async () => {
  await using folder = await tempDir();
  const log = () => readFile(folder.join("log"), "utf8").catch(() => "");
  const group = start(folder, "trap '' TERM; echo $$; while :; do sleep 0.1; done");
  await until(async () => /\d\n/.test(await log()));
  await group[Symbol.asyncDispose]();
  expect(group.hasEnded).toBe(true);
});

test("a failure says how the process ended and shows the end of its log", async () => {
  await using folder = await tempDir();
  await using group = start(folder, "for i in $(seq 100); do echo line $i; done; echo no such module >&2; exit 3");
  await until(() => group.hasEnded);
  const { message } = group.failure("gave no answer");
  expect(message).toContain("ended with code 3");
  expect(message).toContain(folder.join("log"));
  expect(message).toContain("line 100\nno such module");
  expect(message).not.toContain("line 50\n");
});
