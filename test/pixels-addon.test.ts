/** The addon for pictures in an executable: its file is copied into memory before it is loaded. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "./helpers/child-output.ts";

test("a process that can open no file in memory gets `native_unavailable` with the reason and the fix", async () => {
  const child = join(import.meta.dir, "helpers", "pixels-child.ts");
  const { stdout } = await run(["sh", "-c", 'ulimit -n 64; exec "$0" "$1"', process.execPath, child]);
  expect(stdout).toBe(
    "native_unavailable: the native addon for pictures cannot be loaded (the system creates no file in memory): install sconce again, or run `npm run setup`\n",
  );
});
