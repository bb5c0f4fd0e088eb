/**
 * Folders that several test files use and must not change. In one run of `npm test`, the first file that needs a
 * folder makes it.
 */
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { made } from "../../examples/minilm/prepared.ts";

/**
 * The folder `name`, which the first caller fills with `make`. @returns undefined if the test file runs without `npm
 * test`
 */
export async function shared(name: string, make: (folder: string) => Promise<void>): Promise<string | undefined> {
  const all = process.env.SCONCE_TEST_SHARED;
  if (all === undefined) return undefined;
  const folder = join(all, name);
  await mkdir(dirname(folder), { recursive: true });
  for (;;) {
    if (existsSync(folder)) return folder;
    // Test files run in parallel. The file that creates this folder makes the content; the others wait.
    const isOurs = await mkdir(`${folder}.making`).then(
      () => true,
      () => false,
    );
    if (!isOurs) await Bun.sleep(20);
    else {
      try {
        return await made(folder, make);
      } finally {
        await rm(`${folder}.making`, { recursive: true });
      }
    }
  }
}
