/**
 * A machine loses power: the files of the prediction store are again as they were when each was last synced to disk.
 */
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { tempDir } from "../../helpers/fixture.ts";
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { isSuspect } from "../kills.ts";
import { lacking, preloaded } from "../preloaded.ts";
import { TestedServer } from "../tested-server.ts";
import { Traffic } from "../traffic.ts";

export const powerLoss: Fault = {
  name: "power-loss",
  title:
    "with --store-sync full, a machine that loses all that was not synced loses no prediction that a client was told of",
  lacking,
  async inject({ tally, home, random, isLong }) {
    await using dir = await tempDir();
    const [folder, copies] = [dir.join("store"), dir.join("synced")];
    await Promise.all([mkdir(folder), mkdir(copies)]);
    const env = { LD_PRELOAD: preloaded("synced-files", dir.path), SYNCED_BELOW: folder, SYNCED_COPIES: copies };
    const store = join(folder, "predictions.sqlite");
    await using server = await TestedServer.start({ home, store, env, args: ["--store-sync", "full"] });
    const lastLines = () => server.lastLines;
    const traffic = new Traffic({ url: server.url, tally, random, lastLines, isGivenUp: isSuspect });
    const [total, losses] = isLong ? [3000, 20] : [100, 1];
    const running = traffic.run(total);
    for (let loss = 0; loss < losses; loss++) {
      const at = ((loss + random()) * total) / (losses + 1);
      await until(
        () => traffic.done >= at,
        () => `${Math.ceil(at)} of ${total} predictions\n${server.lastLines}`,
        120_000,
      );
      await tally.inject(async () => {
        await server.kill();
        await until(() => server.processes().length === 0, "the end of the server's processes");
        const dropped = await onlySynced(folder, copies);
        tally.note(`a power loss at ${traffic.done} of ${total} predictions took ${dropped} bytes`);
        await server.started();
      });
    }
    await running;
    await traffic.verify();
  },
};

/** Replaces each file by its synced copy, and removes files without one. @returns the number of bytes that are lost */
async function onlySynced(folder: string, copies: string): Promise<number> {
  let dropped = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const copy = join(copies, path.slice(folder.length + 1).replaceAll("/", "%"));
    dropped += Bun.file(path).size;
    if (await Bun.file(copy).exists()) {
      await copyFile(copy, path);
      dropped -= Bun.file(path).size;
    } else await rm(path);
  }
  return dropped;
}
