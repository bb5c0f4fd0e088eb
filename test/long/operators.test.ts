/** Libraries with custom operators are packaged with the model, and loaded before its weights. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { CliResult } from "../helpers/cli.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { compiledOperators, writeTriple } from "../helpers/operators.ts";
import { storeWith } from "../helpers/server.ts";

await compiledOperators();
const dir = fixture(tempDir);
const store = fixture(() => storeWith());

/** Builds in a separate process, because a process cannot unload a library. */
async function build(operators: string): Promise<CliResult> {
  const folder = join(dir.path, Bun.hash(operators).toString(36));
  await writeTriple(folder, operators);
  return store.cli(["build", folder]);
}

test("a model with its operators builds, packs and runs", async () => {
  expect((await build('["operators.so"]')).code).toBe(0);
  const { code, stdout, stderr } = await store.cli(["predict", "triple", "x=2.5"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toEqual({ y: 7.5 });
});

test("a model that lacks its operators is refused with the operator's name", async () => {
  const { code, stderr } = await build("[]");
  expect(code).toBe(1);
  expect(stderr).toContain("sconce::triple");
});

test("a file that is not a library is refused by name", async () => {
  const { code, stderr } = await build('["broken.so"]');
  expect(code).toBe(1);
  expect(stderr).toContain("operators broken.so cannot be loaded: ");
});
