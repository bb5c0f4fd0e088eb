/** Runs test/cuda.test.ts in a process with simulated GPUs. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { fakeCuda } from "../helpers/fake-cuda.ts";

test("batches run on a device with streams, and no batch gets the data of another", async () => {
  const child = Bun.spawn([process.execPath, "test", "--timeout", "60000", join(import.meta.dir, "../cuda.test.ts")], {
    env: { ...process.env, SCONCE_TEST_CUDA: await fakeCuda() },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const told = await child.stderr.text();
  if ((await child.exited) !== 0) throw new Error(told);
  expect(told).toMatch(/\d pass/);
  expect(told).not.toMatch(/[1-9]\d* skip/);
}, 600_000);
