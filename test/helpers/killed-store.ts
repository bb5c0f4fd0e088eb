/** Kills a process while it writes a store of predictions. */
import { expect } from "bun:test";

/**
 * Starts a process that stores predictions, and kills it after it has printed `lines` lines. @returns the ids of its
 * stored predictions
 */
export async function killedAfter(
  lines: number,
  path: string,
  { role, owner }: { role: string; owner: string },
): Promise<string[]> {
  const script = require.resolve("./prediction-child.ts");
  const child = Bun.spawn([process.execPath, script, path, role, owner], { stdout: "pipe", stderr: "inherit" });
  let output = "";
  for await (const chunk of child.stdout) {
    output += Buffer.from(chunk).toString();
    if (output.split("\n").length > lines) child.kill("SIGKILL");
  }
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  const complete = output.split("\n").slice(0, -1);
  return complete.filter((line) => line.startsWith("created ")).map((line) => line.slice("created ".length));
}
