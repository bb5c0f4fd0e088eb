/**
 * The files of src that use internals of packages, and the package versions that they were written for. Check such a
 * file when its package is updated.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { torchMinors } from "../src/machine/libtorch/libtorch-build.ts";

const root = join(import.meta.dir, "..");
const { dependencies } = z
  .object({ dependencies: z.record(z.string(), z.string()) })
  .parse(await Bun.file(join(root, "package.json")).json());

/** Paths of the files of `src` whose code, without comments, matches the pattern. */
async function filesWith(pattern: RegExp): Promise<string[]> {
  const files: string[] = [];
  for await (const path of new Bun.Glob("src/**/*.ts").scan(root)) {
    const code = (await Bun.file(join(root, path)).text()).replaceAll(/^\s*(\/\/|\/?\*).*$/gm, "");
    if (pattern.test(code)) files.push(path);
  }
  return files.sort();
}

test("only src/base/schemas/zod-internals.ts uses zod's internals, and those of zod 4.6.7", async () => {
  expect(await filesWith(/\b_zod\b/)).toEqual(["src/base/schemas/zod-internals.ts"]);
  expect(dependencies.zod).toBe("4.6.7");
});

test("only src/cli/build/plain/package-source.ts reads the C++ that torch 2.11 to 2.15 generate", async () => {
  expect(await filesWith(/inputs_info_|assert_size_stride/)).toEqual(["src/cli/build/plain/package-source.ts"]);
  expect([torchMinors[0], torchMinors.at(-1)]).toEqual(["2.11", "2.15"]);
});

const schema = join(readLibtorch()?.root ?? "", "_export/serde/schema.py");

test.skipIf(!(await Bun.file(schema).exists()))(
  "only src/engine/program/program-schema.ts has torch's schema of exported programs, and it is version 8 (skipped for a libtorch without Python)",
  async () => {
    expect(await filesWith(/\b(graph_module|tensor_meta|as_expr)\b.*z\.looseObject/)).toEqual([
      "src/engine/program/program-schema.ts",
    ]);
    expect(await Bun.file(schema).text()).toMatch(/^SCHEMA_VERSION = \(8, \d+\)$/m);
  },
);

test("no file of src imports an inner file of a package", async () => {
  const inner = /from "(?!#|node:|bun:|\.)(?:@[\w-]+\/)?[\w.-]+\/(?:lib|dist|src)\//;
  expect(await filesWith(inner)).toEqual([]);
});
