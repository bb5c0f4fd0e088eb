/** The upscale example as an AOTInductor package, compiled once on this machine and kept in `.sconce/fixtures`. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

const root = join(import.meta.dir, "../..");
const example = join(root, "examples/upscale");
const sources = ["upscale.pt", "export.py", "network.py"];
const libtorch = z.object({
  version: z.string(),
  python: z.object({ command: z.string(), path: z.string().nullable() }),
});

/** @returns the path of the package; compiling it takes most of a minute the first time */
export async function compiledUpscale(): Promise<string> {
  const { version, python } = libtorch.parse(await Bun.file(join(root, ".sconce/libtorch.json")).json());
  const hash = createHash("sha256").update(version);
  for (const name of sources) hash.update(await Bun.file(join(example, name)).bytes());
  const folder = join(root, ".sconce/fixtures", `upscale-${hash.digest("hex").slice(0, 16)}`);
  if (!existsSync(folder)) {
    // Made beside its place: where two processes make the same, the first one's stays.
    const unfinished = `${folder}.unfinished-${process.pid}`;
    const env = {
      ...process.env,
      ...(python.path === null ? {} : { PYTHONPATH: python.path }),
      TORCHINDUCTOR_CACHE_DIR: join(root, ".sconce/inductor"),
    };
    const command = [python.command, join(example, "export.py"), unfinished];
    const child = Bun.spawn(command, { env, stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const errors = await child.stderr.text();
    if ((await child.exited) !== 0) throw new Error(`export.py failed: ${errors}`);
    await rename(unfinished, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
    await rm(unfinished, { recursive: true, force: true });
  }
  return join(folder, "upscale.pt2");
}
