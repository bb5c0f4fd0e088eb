/**
 * `bun kept-memory-child.ts TOTALS.pt` runs a batch of 64 MB, then waits until the process has released half of its
 * memory. It prints the memory at the two times, in bytes. Outputs are small, so that their memory does
 * not depend on the garbage collector.
 */
import { float32, type Tensor } from "../../src/author/tensor.ts";
import { openSession } from "../../src/engine/native/binding.ts";
import { ownBytes } from "./own-memory.ts";

const ELEMENTS = 2 ** 20;
/** Maximum number of looks at the memory, one each 10 ms. */
const MOST_LOOKS = 1000;

const spec = float32(ELEMENTS);
const options = { device: "cpu", threads: 1, inputs: { x: spec }, outputs: { y: float32(1) }, keepMs: 50 };
const session = await openSession({ path: process.argv[2] ?? "", ...options });
const item: Tensor[] = [{ dtype: "float32", shape: [ELEMENTS], data: new Float32Array(ELEMENTS) }];

/** Private memory of the process after a garbage collection, in bytes. */
function heldBytes(): number {
  Bun.gc(true);
  return ownBytes();
}

const empty = heldBytes();
await session.run(Array<Tensor[]>(16).fill(item));
const large = heldBytes() - empty;
let small = large;
for (let i = 0; i < MOST_LOOKS && small > large / 2; i++) {
  await Bun.sleep(10);
  small = heldBytes() - empty;
}
await session.dispose();
console.log(JSON.stringify({ large, small }));
