/**
 * asked-server.ts MODEL: a server in this process that says, each time it is asked, for how long at most its event loop was held since
 * the last time, and what memory it has, once it has collected its garbage where it is told to.
 */
import { heapStats } from "bun:jsc";
import { peekOptions } from "../src/commands/arguments.ts";
import { serveOptions } from "../src/config.ts";
import { z } from "../src/model/z.ts";
import { startServer } from "../src/server.ts";
import { ModelStore } from "../src/store/store.ts";

const TICK_MS = 1;
const askedSchema = z.object({ collect: z.boolean() });

const [model, ...rest] = process.argv.slice(2);
const options = peekOptions(rest, serveOptions);
await startServer({ packaged: await new ModelStore().resolve(model), config: options });
let heldMs = 0;
let last = performance.now();
setInterval(() => {
  const now = performance.now();
  heldMs = Math.max(heldMs, now - last - TICK_MS);
  last = now;
}, TICK_MS);
for await (const line of console) {
  // Twice, with time in between: finalizers run after a collection, and freed pages are given back a little later.
  for (let i = 0; i < 2 && askedSchema.parse(JSON.parse(line)).collect; i++) {
    Bun.gc(true);
    await Bun.sleep(300);
  }
  console.log(JSON.stringify({ heldMs, residentBytes: process.memoryUsage.rss(), heapBytes: heapStats().heapSize }));
  heldMs = 0;
}
