/** CONTRIBUTING.md describes the folders and files of the sources as they are. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const root = dirname(import.meta.dir);
const text = await Bun.file(join(root, "CONTRIBUTING.md")).text();
const transpiler = new Bun.Transpiler({ loader: "ts" });

/** Paths of source files that a section of CONTRIBUTING.md names, in order, without repetitions. */
function pathsOf(title: string): string[] {
  const section = text.split(/^## /m).find((each) => each.startsWith(title)) ?? "";
  const named = [...section.matchAll(/`([\w/-]+\.(?:ts|cc))`/g)].map(([, path = ""]) => path);
  return [...new Set(named)].filter((path) => path.includes("/") && !path.startsWith("test/"));
}

/** All direct and indirect imports of a source file. */
async function importsOf(path: string, found = new Set<string>()): Promise<Set<string>> {
  for (const each of transpiler.scanImports(await Bun.file(join(root, "src", path)).text())) {
    if (!each.path.startsWith(".") || !each.path.endsWith(".ts")) continue;
    const imported = normalize(join(dirname(path), each.path));
    if (found.has(imported)) continue;
    found.add(imported);
    await importsOf(imported, found);
  }
  return found;
}

test.each([
  ["The way of a prediction", 20],
  ["From `serve` to ready", 15],
])('the section "%s" names at most %d files, and all of them exist', (title, most) => {
  const paths = pathsOf(title);
  expect(paths.length).toBeGreaterThan(10);
  expect(paths.length).toBeLessThanOrEqual(most);
  const missing = paths.filter((path) => !existsSync(join(root, path.startsWith("native/") ? "" : "src", path)));
  expect(missing).toEqual([]);
});

test('no file of the section "The way of a prediction" imports a file that the section names earlier', async () => {
  const paths = pathsOf("The way of a prediction").filter((path) => path.endsWith(".ts"));
  const back: string[] = [];
  for (const [i, path] of paths.entries()) {
    const imported = await importsOf(path);
    back.push(
      ...paths
        .slice(0, i)
        .filter((each) => imported.has(each))
        .map((each) => `${path} imports ${each}`),
    );
  }
  expect(back).toEqual([]);
});

test("the map names every folder of src, and every folder inside one", () => {
  const map = text.slice(text.indexOf("## Map"), text.indexOf("\nnative/"));
  const folders = (path: string) =>
    readdirSync(join(root, "src", path), { withFileTypes: true })
      .filter((each) => each.isDirectory())
      .map((each) => each.name);
  const named = folders("").flatMap((room) => [room, ...folders(room)]);
  expect(named.filter((name) => !new RegExp(`^ +${name}/ `, "m").test(map))).toEqual([]);
});
