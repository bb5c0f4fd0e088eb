/** `npm run fidelity -- packing` measures networks with the memory settings of an engine process. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { packedTimes } from "../fidelity/packing.ts";
import { tempDir } from "../helpers/temp-dir.ts";

test("runs whose time is measured reuse their memory, as in an engine process", async () => {
  await using dir = await tempDir();
  const args = ["1", "0", "1", "1", "--only=layers/conv_32", "--forms=exported"];
  const times = await Array.fromAsync(packedTimes({ script: "architectures.py", args, out: join(dir.path, "made") }));
  expect(times.map(({ batch }) => batch)).toEqual([1, 2, 7, 16]);
  // Without the memory settings of the engine process, a run has hundreds of page faults.
  for (const { pageFaults } of times) expect(pageFaults).toBeLessThan(50);
}, 120_000);
