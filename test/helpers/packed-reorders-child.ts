/**
 * `bun packed-reorders-child.ts WEIGHTS PASSES` runs batches of two sizes PASSES times, and prints "pass" before each
 * time.
 */
import { writeSync } from "node:fs";
// `npm run pack` uses this import to run the script with another build of the addon.
import "../../scripts/pack/addon-trial.ts";
import { float32, tensor } from "../../src/author/tensor.ts";
import { openSession } from "../../src/engine/native/binding.ts";

const [path = "", passes = "0"] = process.argv.slice(2);
const inputs = { x: float32(3, 8, 8) };
const session = await openSession({ path, device: "cpu", threads: 1, inputs, outputs: { y: float32(3, 640) } });
const item = [tensor(new Float32Array(3 * 8 * 8), [3, 8, 8])];

for (let pass = 0; pass < Number(passes); pass++) {
  writeSync(1, "pass\n");
  await session.run([item]);
  await session.run([item, item, item]);
}
await session.dispose();
