/** Runs test/cuda.test.ts in a process with simulated GPUs. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "../helpers/child-output.ts";
import { fakeCuda } from "../helpers/fake-cuda.ts";

test("batches run on a device with streams, and no batch gets the data of another", async () => {
  const command = [process.execPath, "test", "--timeout", "60000", join(import.meta.dir, "../cuda.test.ts")];
  const { code, stderr } = await run(command, { env: { ...process.env, SCONCE_TEST_CUDA: await fakeCuda() } });
  if (code !== 0) throw new Error(stderr);
  expect(stderr).toMatch(/\d pass/);
  expect(stderr).not.toMatch(/[1-9]\d* skip/);
}, 600_000);
