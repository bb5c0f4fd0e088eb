/** Type checking and Biome, without the tests. Neither changes a file. The exit code is how many of the two fail. */

import { join } from "node:path";
import { line, StepLine } from "./setup/report.ts";
import { root } from "./setup/step.ts";

/** Runs both and shows what they complain about. @returns how many fail */
async function check(): Promise<number> {
  const colour = process.stdout.isTTY && !process.env.NO_COLOR;
  // Their launchers are started with this Bun: there need not be a Node on the PATH.
  const results = [
    await succeeds("types", "tsc", [join("typescript", "bin", "tsc"), "-p", ".", ...(colour ? ["--pretty"] : [])]),
    // In a browser there are other types than on a server.
    await succeeds("types", "tsc of the page", [join("typescript", "bin", "tsc"), "-p", "src/server/page/client"]),
    await succeeds("style", "biome", [
      join("@biomejs", "biome", "bin", "biome"),
      "check",
      "--error-on-warnings",
      ...(colour ? ["--colors=force"] : ["--colors=off"]),
    ]),
  ];
  return results.filter((result) => !result).length;
}

async function succeeds(name: string, tool: string, [script = "", ...options]: string[]): Promise<boolean> {
  const step = new StepLine(name, tool);
  const child = Bun.spawn([process.execPath, "--bun", join(root, "node_modules", script), ...options], {
    cwd: root,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const code = await child.exited;
  if (code === 0) {
    step.done(tool);
    return true;
  }
  step.failed(tool);
  process.stderr.write(
    `${`${out}\n${err}`.trim() || line(" ", name, `${tool} ended with ${child.signalCode ?? code}`)}\n`,
  );
  return false;
}

process.exitCode = await check();
