/** A model whose hook ends its process, or never returns. */
import type { RunningCli } from "./cli.ts";
import type { TempDir } from "./fixture.ts";
import { modelText, writeModel } from "./model-text.ts";
import type { TestStore } from "./server.ts";

/**
 * The hook `preprocess` of the model. The input x chooses its behaviour: -1 never returns, -4 blocks the thread
 * until the file GATE.go exists, and values above 100 end the process.
 */
export const strayPreprocess = `({ x }) => {
  const { existsSync, writeFileSync } = process.getBuiltinModule("node:fs");
  while (x === -1);
  if (x === -4) {
    writeFileSync(process.env.GATE + ".begun", "");
    while (!existsSync(process.env.GATE + ".go")) Bun.sleepSync(1);
  }
  if (x > 100) process.exit(0);
  return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
}`;

/** Writes the model. @returns its folder */
export function strayModel(dir: TempDir): Promise<string> {
  return writeModel(dir, modelText({ name: '"stray"', preprocess: strayPreprocess }), "stray");
}

/** Starts a server of the model. @param gate path prefix of the files that hooks wait for */
export function serveStray(store: TestStore, gate: string, ...args: string[]): RunningCli {
  return store.start(["stray", ...args], { GATE: gate });
}
