/** `sconce predict` in this process: one of its own takes most of a second of a processor. */
import { runCommand } from "citty";
import { predict } from "../../src/commands/predict.ts";
import { withConsole } from "../../src/serving/captured-console.ts";

export interface PredictHereOptions {
  /** Of the model store. */
  readonly home: string;
  /** What paths are relative to. */
  readonly cwd: string;
}

/** @returns what it prints; rejects with the error that a process would tell in one line */
export async function predictHere(args: readonly string[], { home, cwd }: PredictHereOptions): Promise<string> {
  const before = { home: process.env.SCONCE_HOME, cwd: process.cwd() };
  let printed = "";
  process.env.SCONCE_HOME = home;
  process.chdir(cwd);
  try {
    await withConsole(
      (text) => {
        printed += text;
      },
      () => runCommand(predict, { rawArgs: [...args] }),
    );
  } finally {
    process.chdir(before.cwd);
    if (before.home === undefined) delete process.env.SCONCE_HOME;
    else process.env.SCONCE_HOME = before.home;
  }
  return printed;
}
