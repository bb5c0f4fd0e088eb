/** Every line of docs/tutorial.md works, pasted in its order into an empty folder. */
import { expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { pythonVariables, readLibtorch } from "../scripts/setup/libtorch.ts";
import { clientOf, follow, type RunningCli } from "./helpers/cli.ts";
import { machineEnv } from "./helpers/machine.ts";
import { blocksOf } from "./helpers/readme.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const root = join(import.meta.dir, "..");

test("from an empty folder to predictions that match PyTorch", async () => {
  await using folder = await tempDir();
  await using home = await tempDir();
  await using bin = await tempDir();
  const python = readLibtorch()?.python;
  if (!python) throw new Error("the set-up found no Python that has torch");
  await command(bin.join("sconce"), `${process.execPath} --no-install ${join(root, "test/helpers/sconce.ts")}`);
  await command(bin.join("python3"), python.command);
  const env = {
    ...machineEnv,
    ...pythonVariables(python),
    PATH: `${bin.path}:${process.env.PATH}`,
    PYTHONPATH: [python.path, process.env.PYTHONPATH].filter(Boolean).join(":"),
    HOME: home.path,
    SCONCE_HOME: home.join("models"),
    SCONCE_PORT: "0",
    SCONCE_HOST: "127.0.0.1",
  };
  const bash = (script: string) =>
    Bun.spawn(["bash", "-euo", "pipefail", "-c", script], {
      cwd: folder.path,
      env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });

  let server: RunningCli | undefined;
  let address = "localhost:3000";
  const blocks = blocksOf(await Bun.file(join(root, "docs/tutorial.md")).text());
  try {
    for (const [i, { language, path, content }] of blocks.entries()) {
      const text = content.replaceAll("localhost:3000", address);
      if (path !== undefined) await Bun.write(folder.join(path), text);
      if (language !== "sh") continue;
      if (text.startsWith("sconce serve")) {
        server = follow(bash(`exec ${text}`));
        address = (await clientOf(server)).url.host;
        continue;
      }
      const child = bash(text);
      const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      expect({ text, code, errors: code === 0 ? "" : errors }).toEqual({ text, code: 0, errors: "" });
      const next = blocks[i + 1];
      if (next?.language === "json") expect(labelsOf(JSON.parse(output))).toEqual(labelsOf(JSON.parse(next.content)));
      if (next?.language === "text") expect(output).toContain(next.content.trim().split("…")[0] ?? "");
    }
    expect(server).toBeDefined();
  } finally {
    server?.kill("SIGTERM");
    await server?.[Symbol.asyncDispose]();
  }
}, 240_000);

async function command(path: string, words: string): Promise<void> {
  await Bun.write(path, `#!/bin/sh\nexec ${words} "$@"\n`);
  await chmod(path, 0o755);
}

/** Keys of a prediction, its status, and the moon of each output. */
function labelsOf(prediction: { status: string; outputs: { moon: string }[] }): unknown {
  return {
    keys: Object.keys(prediction),
    status: prediction.status,
    moons: prediction.outputs.map(({ moon }) => moon),
  };
}
