/** The table of scripts/rooms.ts says which folders of src may import which; `npm run check` refuses other imports. */
import { expect, test } from "bun:test";
import { brokenRules, circles, readImports } from "../scripts/rooms.ts";

const imports = readImports();

test("a folder does not import a folder below it in the table", () => {
  const broken = brokenRules([...imports, { from: "base/log.ts", to: "server/config.ts" }]);
  expect(broken).toContain("src/base/log.ts imports src/server/config.ts: base does not import server");
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
