/** memory-server.ts MODEL: a server that collects its garbage when it is asked to, and says what memory it has then. */
import { heapStats } from "bun:jsc";
import { peekOptions } from "../src/commands/arguments.ts";
import { serveOptions } from "../src/config.ts";
import { startServer } from "../src/server.ts";
import { ModelStore } from "../src/store/store.ts";

const [model, ...rest] = process.argv.slice(2);
const options = peekOptions(rest, serveOptions);
await startServer({ packaged: await new ModelStore().resolve(model), config: options });
for await (const _ of console) {
  // Twice, with time in between: finalizers run after a collection, and freed pages are given back a little later.
  for (let i = 0; i < 2; i++) {
    Bun.gc(true);
    await Bun.sleep(300);
  }
  console.log(JSON.stringify({ residentBytes: process.memoryUsage.rss(), heapBytes: heapStats().heapSize }));
}
