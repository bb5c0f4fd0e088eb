/** The table of scripts/rooms.ts says which folders of src may import which; `npm run check` refuses other imports. */
import { expect, test } from "bun:test";
import { brokenRules, circles, readImports } from "../scripts/rooms.ts";

const imports = readImports();

test("a folder does not import a folder below it in the table", () => {
  const broken = brokenRules([...imports, { from: "base/log.ts", to: "server/config.ts" }]);
  expect(broken).toEqual(["src/base/log.ts imports src/server/config.ts: base does not import server"]);
});

test("a folder of the server does not import every other folder of it", () => {
  const broken = brokenRules([...imports, { from: "server/memory/charge.ts", to: "server/http/app.ts" }]);
  expect(broken).toEqual([
    "src/server/memory/charge.ts imports src/server/http/app.ts: server/memory does not import server/http",
  ]);
});

test("a folder is imported only through the files that the table names", () => {
  const broken = brokenRules([...imports, { from: "cli/cli.ts", to: "server/flow/turns.ts" }]);
  expect(broken).toEqual([
    "src/cli/cli.ts imports src/server/flow/turns.ts, which is no door of server: import a door, or make flow/turns one",
  ]);
});

test("each file through which a folder may be imported has an importer", () => {
  const others = imports.filter(({ to }) => to !== "server/page/page.ts");
  expect(brokenRules(others)).toEqual([
    "src/server/page/page.ts is a door without an importer: remove it from the doors",
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
