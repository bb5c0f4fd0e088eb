/**
 * Loads the addon for pictures as in an executable, in a process that can open no file. Prints the error's code and
 * message.
 */
import { openSync } from "node:fs";
import { pixelsAddon } from "../../src/author/pixels.ts";
import { codeOf, messageOf } from "../../src/base/errors.ts";
import { setPixelsFile } from "../../src/base/platform-package.ts";

setPixelsFile("/$bunfs/root/pixels.so");
try {
  for (;;) openSync("/dev/null", "r");
} catch {
  const error: unknown = await pixelsAddon().catch((failed: unknown) => failed);
  console.log(`${codeOf(error)}: ${messageOf(error)}`);
}
