/** Builds versions of the model `ten`, and starts servers for them. */
import { expect } from "bun:test";
import { type RunningCli, startCli } from "./cli.ts";
import { cliHere } from "./command-here.ts";
import { writeModel } from "./model-text.ts";
import type { TempDir } from "./temp-dir.ts";

type Env = Readonly<Record<string, string>>;

/** Builds a version of the model from the text of its model.ts, with the reference `ten:TAG`. */
export async function buildVersion(dir: TempDir, text: string, tag: string, env: Env): Promise<void> {
  const { code, stderr } = await cliHere(["build", await writeModel(dir, text, tag), "-t", `ten:${tag}`], { env });
  expect({ code, stderr }).toMatchObject({ code: 0 });
}

export function serveOnLoopback(args: readonly string[], env: Env): RunningCli {
  return startCli(["serve", ...args, "--host", "127.0.0.1", "-p", "0"], { env });
}
