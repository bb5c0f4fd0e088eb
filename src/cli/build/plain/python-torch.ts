/** Chooses the Python for commands that need PyTorch, and explains its failures. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";

/** File in which the set-up of a checkout records the Python whose torch it found. */
const setUp = fileURLToPath(new URL("../../../../.sconce/libtorch.json", import.meta.url));
const setUpSchema = z.object({ python: z.object({ command: z.string(), path: z.string().nullable() }).nullable() });

export interface PythonTorch {
  readonly command: string;
  /** Environment variables with which `command` finds torch. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The command of a Python, and environment variables with which it finds torch. It is the Python that the set-up of a
 * checkout found, otherwise `python3`. Checks neither the command nor torch.
 */
export async function pythonWithTorch(): Promise<PythonTorch> {
  const found = existsSync(setUp) ? setUpSchema.safeParse(await Bun.file(setUp).json()).data?.python : undefined;
  if (!found) return { command: "python3", env: {} };
  // The caller's packages, such as torchvision, come after the torch of the set-up.
  const paths = [found.path, process.env.PYTHONPATH].filter((path) => path);
  return { command: found.command, env: paths.length === 0 ? {} : { PYTHONPATH: paths.join(":") } };
}

/** Why a Python process failed: a line of its standard error, otherwise its signal or exit code. */
export function pythonFailure(command: string, errors: string, { exitCode, signalCode }: Bun.Subprocess): string {
  const home = process.env.PYTHONHOME;
  const [, fatal] = /^Fatal Python error: (.*)$/m.exec(errors) ?? [];
  if (fatal !== undefined) {
    const hint = home ? `; PYTHONHOME is ${home}: does this folder belong to ${command}?` : "";
    return `${command} stopped with a fatal error: ${fatal}${hint}`;
  }
  const lines = errors.split("\n").filter((line) => line.trim() !== "");
  // A traceback may end with a message of several lines, so the last line with "error" counts.
  const line = lines.findLast((each) => /error|exception/i.test(each)) ?? lines.at(-1);
  return line ?? `${command} was ended by ${signalCode ?? `exit code ${exitCode}`}`;
}
