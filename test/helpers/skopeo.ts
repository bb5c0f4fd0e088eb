/** skopeo, an independent reader and copier of images: it checks every digest that it comes by. */
import { debianTool } from "./debian-tools.ts";

const tool = debianTool("skopeo");

/** Reason for a skipped test, if skopeo is unavailable. */
export const skopeoObstacle = tool === undefined ? "it needs skopeo" : undefined;

/** Runs it to its end; what it prints. */
export async function skopeo(...args: readonly string[]): Promise<string> {
  if (tool === undefined) throw new Error(skopeoObstacle);
  // These tests do not check signatures.
  const child = Bun.spawn([tool.command, "--insecure-policy", ...args], {
    env: { ...process.env, ...tool.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`skopeo ${args.join(" ")} ended with ${code}: ${errors}`);
  return output;
}
