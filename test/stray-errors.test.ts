/** Uncaught errors in a process that runs a model's code: whether sconce or the model is at fault. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { SconceError } from "../src/base/errors.ts";
import { isOwnFault } from "../src/server/stray-errors.ts";
import { run } from "./helpers/child-output.ts";
import { refusal } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";

const withStack = (...frames: string[]): Error =>
  Object.assign(new Error("no"), { stack: ["Error: no", ...frames.map((frame) => `    at ${frame}`)].join("\n") });

test("an error thrown only by sconce's code is a fault of sconce", () => {
  expect(isOwnFault(new TypeError("no"))).toBe(true);
});

test.each<[string, unknown]>([
  ["an error with a frame of the model", withStack("later (model.ts:3:9)", "run (/sconce/src/serving/hooks.ts:40:1)")],
  ["a SconceError", new SconceError("file_invalid", "no")],
  ["an error without frames", withStack()],
  ["a thrown string", "no"],
])("%s is none", (_, error) => {
  expect(isOwnFault(error)).toBe(false);
});

test.each([
  ["an exception", "setTimeout(() => { throw new TypeError('own'); }, 1)"],
  ["a rejection", "void Promise.reject(new TypeError('own'))"],
])("%s of sconce ends its process, with a line that says so", async (_, code) => {
  await using dir = await tempDir();
  const module = JSON.stringify(join(import.meta.dir, "../src/server/stray-errors.ts"));
  await Bun.write(
    dir.join("own.ts"),
    `import { surviveStrayErrors } from ${module};\nsurviveStrayErrors();\nsetInterval(() => {}, 1000);\n${code};\n`,
  );
  const ended = await run([process.execPath, "--no-install", dir.join("own.ts")]);
  expect(ended).toMatchObject(refusal(1, "in sconce, which ends this process"));
});
