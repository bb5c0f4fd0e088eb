/**
 * `child.ts NAME SEED FROM MS PROGRESS` gives damaged inputs to the reader NAME for MS milliseconds. It writes the
 * number of each input into the file PROGRESS, so that its parent knows which input crashed or blocked it.
 */
import { openSync, writeFileSync, writeSync } from "node:fs";
import { seeded } from "../helpers/loads.ts";
import { targets } from "./targets.ts";

const [name = "", seed = "0", from = "0", ms = "0", progress = ""] = process.argv.slice(2);
const target = await targets[name]?.();
if (target === undefined) throw new Error(`there is no target ${name}`);
const file = openSync(progress, "w");
const beganMs = performance.now();
let count = 0;
for (let at = Number(from); performance.now() - beganMs < Number(ms); at++) {
  writeSync(file, String(at).padEnd(12), 0);
  const input = target.make(seeded(Number(seed) * 1_000_003 + at));
  try {
    await target.read(input);
  } catch (error) {
    if (!target.isRefusal(error)) {
      writeFileSync(`${progress}.input`, input);
      console.error(`input ${at}: ${error instanceof Error ? error.stack : error}`);
      process.exit(3);
    }
  }
  count = at + 1;
}
writeSync(file, String(count).padEnd(12), 0);
