/**
 * Opens weights and disposes of them: prints what this process had more than before at both times, in bytes. `bun packed-memory-child.ts
 * WEIGHTS`
 */
import { readFileSync } from "node:fs";
// Where another addon is tried this process has that, too.
import "../../scripts/pack/addon-trial.ts";
import { openSession } from "../../src/engine/native/binding.ts";

const spec = { dtype: "float32", dims: [4096] } as const;
const options = { device: "cpu", threads: 1, inputs: { x: spec }, outputs: { y: spec } };

/** Memory that no file backs. */
function ownBytes(): number {
  return 1024 * Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);
}

const empty = ownBytes();
const session = await openSession({ path: process.argv[2] ?? "", ...options });
const opened = ownBytes() - empty;
await session.dispose();
console.log(JSON.stringify({ opened, disposed: ownBytes() - empty }));
