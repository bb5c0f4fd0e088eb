/** The table of scripts/rooms.ts says which folders of src may import which; `npm run check` refuses other imports. */
import { expect, test } from "bun:test";
import { brokenRules, circles, overBudget, readImports } from "../scripts/rooms.ts";

const imports = readImports();

test("a folder does not import a folder below it in the table", () => {
  const broken = brokenRules([...imports, { from: "base/log.ts", to: "server/config.ts" }]);
  expect(broken).toContain("src/base/log.ts imports src/server/config.ts: base does not import server");
});

test("a folder inside a room does not import every other folder of it", () => {
  const broken = brokenRules([...imports, { from: "pipeline/memory/charge.ts", to: "pipeline/inputs/bodies.ts" }]);
  expect(broken).toContain(
    "src/pipeline/memory/charge.ts imports src/pipeline/inputs/bodies.ts: pipeline/memory does not import pipeline/inputs",
  );
});

test("a folder is imported only through the files that the table names", () => {
  const broken = brokenRules([...imports, { from: "cli/cli.ts", to: "pipeline/turns.ts" }]);
  expect(broken).toEqual([
    "src/cli/cli.ts imports src/pipeline/turns.ts, which is no door of pipeline: import a door, or make turns one",
  ]);
});

test("each file through which a folder may be imported has an importer", () => {
  const others = imports.filter(({ to }) => to !== "http/page/page.ts");
  expect(brokenRules(others)).toEqual([
    "src/http/page/page.ts is a door without an importer: remove it from the doors",
  ]);
});

test("no files import each other in a circle", () => {
  const more = [
    { from: "base/bytes.ts", to: "base/clock.ts" },
    { from: "base/clock.ts", to: "base/closest.ts" },
    { from: "base/closest.ts", to: "base/bytes.ts" },
  ];
  expect(circles(more)).toEqual([
    "src/base/bytes.ts imports src/base/clock.ts imports src/base/closest.ts imports src/base/bytes.ts: move what they share into the lower file, or into a third one",
  ]);
  expect(circles(more.slice(1))).toEqual([]);
  const start = { from: "base/bytes.ts", to: "base/clock.ts", isStart: true };
  expect(circles([start, ...more.slice(1)])).toEqual([]);
});

test("each room, and the addon, has a budget of lines", () => {
  const over = overBudget(() => 1_000_000);
  expect(over.length).toBe(11);
  expect(over[0]).toMatch(
    /^src\/base has 1000000 lines, and its budget is \d+: take lines away, or say why there are more$/,
  );
  expect(overBudget(() => 1)).toEqual([]);
});
