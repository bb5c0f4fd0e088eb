/** Runs batches of two sizes, says "again", and runs them again. `bun packed-reorders-child.ts WEIGHTS` */
import { writeSync } from "node:fs";
// `npm run pack` can replace the addon for a trial.
import "../../scripts/pack/addon-trial.ts";
import { float32, tensor } from "../../src/author/tensor.ts";
import { openSession } from "../../src/engine/native/binding.ts";

const path = process.argv[2] ?? "";
const inputs = { x: float32(3, 8, 8) };
const session = await openSession({ path, device: "cpu", threads: 1, inputs, outputs: { y: float32(3, 640) } });
const item = [tensor(new Float32Array(3 * 8 * 8), [3, 8, 8])];

async function run() {
  await session.run([item]);
  await session.run([item, item, item]);
}

await run();
writeSync(1, "again\n");
await run();
await session.dispose();
