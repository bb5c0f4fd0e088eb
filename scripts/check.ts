/**
 * Checks types, style (Biome) and the imports between the folders of `src`, without tests. Changes no source file. The
 * exit code is the number of failed checks.
 */

import { join } from "node:path";
import { brokenRules, circles, overBudget } from "./rooms.ts";
import { line, StepLine } from "./setup/report.ts";
import { root } from "./setup/step.ts";

/** Runs the checks and prints their complaints. @returns the number of failed checks */
async function check(): Promise<number> {
  const colour = process.stdout.isTTY && !process.env.NO_COLOR;
  // `--incremental` keeps the compiler's results, so that the next run checks only changed files. More than two
  // checkers would repeat each other's work.
  const incremental = [
    "--incremental",
    "--tsBuildInfoFile",
    join(root, ".sconce", "types.tsbuildinfo"),
    "--checkers",
    "2",
  ];
  // Bun runs the tools, since the PATH may have no Node.
  const results = [
    await succeeds("types", "tsc", [
      join("typescript", "bin", "tsc"),
      "-p",
      ".",
      ...incremental,
      ...(colour ? ["--pretty"] : []),
    ]),
    // The page's code runs in browsers, so it is checked with other global types.
    await succeeds("types", "tsc of the page", [join("typescript", "bin", "tsc"), "-p", "src/http/page/client"]),
    await succeeds("style", "biome", [
      join("@biomejs", "biome", "bin", "biome"),
      "check",
      "--error-on-warnings",
      ...(colour ? ["--colors=force"] : ["--colors=off"]),
    ]),
    keepsRooms(),
  ];
  return results.filter((result) => !result).length;
}

function keepsRooms(): boolean {
  const step = new StepLine("rooms", "imports");
  const broken = [...brokenRules(), ...circles(), ...overBudget()];
  if (broken.length === 0) {
    step.done("imports");
    return true;
  }
  step.failed("imports");
  process.stderr.write(`${broken.map((rule) => `  ${rule}`).join("\n")}\n  The table is in scripts/rooms.ts.\n`);
  return false;
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
