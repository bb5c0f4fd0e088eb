/** `npm run check` refuses imports that break the table in `scripts/rooms.ts`. */
import { expect, test } from "bun:test";
import { brokenRules, readImports } from "../scripts/rooms.ts";

const imports = readImports();

test("a room does not import a room below it", () => {
  const broken = brokenRules([...imports, { from: "base/log.ts", to: "server/config.ts" }]);
  expect(broken).toEqual(["src/base/log.ts imports src/server/config.ts: base does not import server"]);
});

test("a room of the server does not import every other", () => {
  const broken = brokenRules([...imports, { from: "server/memory/charge.ts", to: "server/http/app.ts" }]);
  expect(broken).toEqual([
    "src/server/memory/charge.ts imports src/server/http/app.ts: server/memory does not import server/http",
  ]);
});

test("a room is imported through its doors", () => {
  const broken = brokenRules([...imports, { from: "cli/cli.ts", to: "server/flow/turns.ts" }]);
  expect(broken).toEqual([
    "src/cli/cli.ts imports src/server/flow/turns.ts, which is no door of server: import a door, or make flow/turns one",
  ]);
});

test("a door has an importer", () => {
  const others = imports.filter(({ to }) => to !== "server/page/page.ts");
  expect(brokenRules(others)).toEqual([
    "src/server/page/page.ts is a door without an importer: remove it from the doors",
  ]);
});
