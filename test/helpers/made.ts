/** Files that a Python script with torch makes once on this machine, stored in `.sconce/fixtures`. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { madeOnce } from "../../src/machine/files/made-once.ts";
import { runnerScript, runScript } from "./script-runner.ts";

const root = join(import.meta.dir, "../..");
const libtorch = z.object({
  version: z.string(),
  python: z.object({ command: z.string(), path: z.string().nullable() }),
});

export interface Making {
  /** First part of the folder's name. */
  readonly name: string;
  /** Path of the script. It gets the folder to fill as its argument. */
  readonly script: string;
  /** Other files that the result depends on: a change of one runs the script again. */
  readonly sources?: readonly string[];
}

/** Runs the script, unless its folder exists for the same sources and torch version. @returns the folder */
export async function made({ name, script, sources = [] }: Making): Promise<string> {
  const { version, python } = libtorch.parse(await Bun.file(join(root, ".sconce/libtorch.json")).json());
  const hash = createHash("sha256").update(version);
  for (const path of [runnerScript, script, ...sources]) hash.update(await Bun.file(path).bytes());
  const folder = join(root, ".sconce/fixtures", `${name}-${hash.digest("hex").slice(0, 16)}`);
  return madeOnce(folder, (temporary) => runScript(python, script, temporary));
}
