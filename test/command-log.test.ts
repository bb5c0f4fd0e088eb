/** Logs of commands: JSON lines for programs, colours on terminals only, and the progress of long copies. */
import { describe, expect, test } from "bun:test";
import { Progress } from "../src/base/progress.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

const entry = (level: string, message: unknown) => ({
  time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  level,
  message,
});

const store = fixture(() => storeWith());

describe("--log-format json", () => {
  test.each([
    ["a failure", ["serve", "nope"], 1, "model_not_found", expect.stringContaining("is empty")],
    ["a wrong call", ["models", "--jsn"], 2, "usage", "unknown option --jsn; did you mean --json? (see --help)"],
    ["an unknown command", ["modles"], 2, "usage", "unknown command modles; did you mean models?"],
  ])("makes %s one JSON object with a code", async (_, args, code, errorCode, message) => {
    const result = await store.cli([...args, "--log-format", "json"]);
    expect({ code: result.code, stdout: result.stdout }).toEqual({ code, stdout: "" });
    expect(JSON.parse(result.stderr)).toEqual({ ...entry("error", message), code: errorCode });
  });

  test("makes warnings JSON lines and leaves the result unchanged", async () => {
    await using dir = await tempDir();
    const folder = await writeModel(dir, modelText({ example: undefined }));
    const { stdout, stderr } = await store.cli(["build", folder, "--log-format", "json"]);
    expect(stdout).toMatch(/^small:[0-9a-f]{12}\n$/);
    expect(JSON.parse(stderr)).toEqual(entry("warning", expect.stringContaining("declares no example")));
  });
});

describe("the progress of a copy", () => {
  const total = 4 * 2 ** 20;

  /** Simulates a copy in steps of [time in milliseconds, bytes written so far]. @returns everything that it prints */
  function copy(steps: readonly (readonly [number, number])[], { isTTY = false, isJson = false } = {}): string[] {
    const written: string[] = [];
    let now = 0;
    const progress = new Progress({
      verb: "Copying",
      terminal: { isTTY, write: (text) => written.push(text) },
      isJson,
      writeLine: (line) => written.push(line),
      now: () => now,
    });
    for (const [ms, doneBytes] of steps) {
      now = ms;
      progress.update({ title: "model.pt", doneBytes, totalBytes: total });
    }
    progress.end();
    return written;
  }

  const quick = [
    [0, 0],
    [999, total],
  ] as const;
  const slow = [
    [0, 0],
    [500, total / 8],
    [1000, total / 4],
    [1050, total / 3],
    [1100, total / 2],
    [5999, total / 2],
    [6000, (total * 3) / 4],
  ] as const;

  test("is not shown for copies of less than a second", () => {
    expect([copy(quick, { isTTY: true }), copy(quick, { isJson: true })]).toEqual([[], []]);
  });

  test("is a line on a terminal, updated at most ten times a second and erased at the end", () => {
    const line = (text: string) => `\r\u001b[KCopying model.pt: ${text}`;
    expect(copy(slow, { isTTY: true })).toEqual([
      line("1.0 MiB of 4.0 MiB (25 %)"),
      line("2.0 MiB of 4.0 MiB (50 %)"),
      line("2.0 MiB of 4.0 MiB (50 %)"),
      "\r\u001b[K",
    ]);
  });

  test("is a JSON line every five seconds with --log-format json, and nothing in a pipe", () => {
    expect(copy(slow, { isJson: true })).toEqual([
      "Copying model.pt: 1.0 MiB of 4.0 MiB (25 %)",
      "Copying model.pt: 3.0 MiB of 4.0 MiB (75 %)",
    ]);
    expect(copy(slow)).toEqual([]);
  });
});
