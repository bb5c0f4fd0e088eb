import { expect, test } from "bun:test";
import { Child } from "../bench/child.ts";

const shell = (script: string) => new Child(["sh", "-c", script], { stopMs: 300 });

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await Bun.sleep(10);
}

test("stopping a process stops its descendants, even if the process itself has ended", async () => {
  const child = shell("sleep 1000 & echo $!");
  const left = Number((await child.line(/^\d+$/))[0]);
  await until(() => child.hasEnded);
  expect(isRunning(left)).toBe(true);
  await child[Symbol.asyncDispose]();
  await until(() => !isRunning(left));
});

test("a process that ignores SIGTERM is killed", async () => {
  const child = shell("trap '' TERM; echo ready; while :; do sleep 0.1; done");
  await child.line(/^ready$/);
  await child[Symbol.asyncDispose]();
  expect(child.hasEnded).toBe(true);
});

test("a failure has the process's exit and last output", async () => {
  await using child = shell("for i in $(seq 100); do echo line $i; done; echo no such module >&2; exit 3");
  const { message } = await child.line(/never/).then(
    () => new Error("it was heard"),
    (error: Error) => error,
  );
  expect(message).toContain("ended with code 3");
  const lines = message.split("\n");
  expect(lines).toContain("line 100");
  expect(lines).toContain("no such module");
  expect(lines).not.toContain("line 50");
});

test("a missing command is a failure", async () => {
  await using child = new Child(["/no/such/command"]);
  await expect(child.line(/never/)).rejects.toThrow("/no/such/command");
});
