/** A database thread of the prediction store that exits when it has to write a text with "die now". */
import "../../src/predictions/sqlite/sqlite-worker.ts";
import type { Call } from "../../src/predictions/sqlite/database-thread.ts";

declare const self: Worker;

const { onmessage } = self;
self.onmessage = (event: MessageEvent<Call>) => {
  if (event.data.method === "write" && event.data.argument.rows.includes("die now")) process.exit(1);
  onmessage?.call(self, event);
};
