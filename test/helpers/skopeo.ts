/** skopeo copies images between registries and folders, and verifies every digest. */
import { debianTool } from "./debian-tools.ts";

const tool = debianTool("skopeo");

/** Why tests with skopeo are skipped; undefined if skopeo is installed. */
export const skopeoObstacle = tool === undefined ? "it needs skopeo" : undefined;

/** Runs skopeo until it ends. @returns its standard output */
export async function skopeo(...args: readonly string[]): Promise<string> {
  if (tool === undefined) throw new Error(skopeoObstacle);
  // Images without a signature are accepted.
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
