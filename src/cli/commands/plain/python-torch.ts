/** Finds a Python with torch, for commands that need PyTorch itself. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";

/** Set-up of a checkout records the Python whose torch it found. */
const setUp = fileURLToPath(new URL("../../../../.sconce/libtorch.json", import.meta.url));
const setUpSchema = z.object({ python: z.object({ command: z.string(), path: z.string().nullable() }).nullable() });

export interface PythonTorch {
  readonly command: string;
  /** Environment in which `command` finds torch. */
  readonly env: Readonly<Record<string, string>>;
}

/** `python3`, unless the set-up of a checkout found another. Neither the command nor torch is guaranteed to exist. */
export async function pythonWithTorch(): Promise<PythonTorch> {
  const found = existsSync(setUp) ? setUpSchema.safeParse(await Bun.file(setUp).json()).data?.python : undefined;
  if (!found) return { command: "python3", env: {} };
  return { command: found.command, env: found.path === null ? {} : { PYTHONPATH: found.path } };
}
