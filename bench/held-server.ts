/** held-server.ts MODEL: a server that says, each time it is asked, for how long at most its event loop was held since the last time. */
import { peekOptions } from "../src/commands/arguments.ts";
import { serveOptions } from "../src/config.ts";
import { startServer } from "../src/server.ts";
import { ModelStore } from "../src/store/store.ts";

const TICK_MS = 1;

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
for await (const _ of console) {
  console.log(JSON.stringify({ heldMs }));
  heldMs = 0;
}
