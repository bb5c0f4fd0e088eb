/** A program with a dynamic batch dimension compiles for any number of rows, even if its example has few. */
import { expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { ModelStore } from "../src/package/store/store.ts";
import { cli } from "./helpers/cli.ts";
import { made } from "./helpers/made.ts";
import { tempDir } from "./helpers/temp-dir.ts";

test("a program whose example has two rows is compiled for batches of 32", async () => {
  const folder = await made({ name: "few-rows", script: join(import.meta.dir, "helpers/few_rows.py") });
  await using dir = await tempDir();
  const env = {
    SCONCE_HOME: dir.path,
    // Kept for later runs: compiling takes long.
    SCONCE_CACHE_DIR: join(dirname(folder), "few-rows-cache"),
    AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL: "O0",
    TORCHINDUCTOR_VEC_ISA_OK: "1",
  };
  const { code, stderr } = await cli(["build", join(folder, "few.pt2"), "--aot"], { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining("at most") });
  expect((await new ModelStore(dir.path).resolve("few")).config.batchSize).toBe(32);
}, 300_000);
