/**
 * `bun packed-memory-child.ts WEIGHTS` opens weights, then disposes them. It prints the additional memory of the
 * process at the two times, in bytes.
 */
// `npm run pack` uses this import to run the script with another build of the addon.
import "../../scripts/pack/addon-trial.ts";
import { openSession } from "../../src/engine/native/binding.ts";
import { ownBytes } from "./own-memory.ts";

const spec = { dtype: "float32", dims: [4096] } as const;
const options = { device: "cpu", threads: 1, inputs: { x: spec }, outputs: { y: spec } };

const empty = ownBytes();
const session = await openSession({ path: process.argv[2] ?? "", ...options });
const opened = ownBytes() - empty;
await session.dispose();
console.log(JSON.stringify({ opened, disposed: ownBytes() - empty }));
