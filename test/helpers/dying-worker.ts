/** The thread of a prediction database, which dies when it is to write a text with "die now" in it. */
import "../../src/server/predictions/sqlite/sqlite-worker.ts";
import type { Numbered } from "../../src/server/predictions/sqlite/sqlite-messages.ts";

declare const self: Worker;

const { onmessage } = self;
self.onmessage = (event: MessageEvent<Numbered>) => {
  if (event.data.type === "write" && event.data.texts.includes("die now")) process.exit(1);
  onmessage?.call(self, event);
};
