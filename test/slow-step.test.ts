/** A slow start prints which step takes long; a fast start prints nothing. */
import { expect, test } from "bun:test";
import { slowStep } from "../src/base/slow-step.ts";

test("a slow step is logged in one line", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const lines: string[] = [];
  const writeLine = (line: string) => {
    lines.push(line);
    resolve("done");
  };
  expect(await slowStep("Loading weights", promise, { quietMs: 1, terminal: { write() {} }, writeLine })).toBe("done");
  expect(lines).toEqual(["Loading weights …"]);
});

test("on a terminal a line counts its seconds, and is erased at the end, also after a failure", async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  const written: string[] = [];
  const write = (text: string) => {
    written.push(text);
    reject(new Error("no"));
  };
  await expect(slowStep("Warming up", promise, { quietMs: 1, terminal: { isTTY: true, write } })).rejects.toThrow("no");
  expect(written).toEqual(["\r\u001b[KWarming up: 0 s", "\r\u001b[K"]);
});

test("a fast step prints nothing", async () => {
  const written: string[] = [];
  const write = (text: string) => written.push(text);
  await slowStep("Loading", Promise.resolve(), { terminal: { isTTY: true, write }, writeLine: write });
  expect(written).toEqual([]);
});
