/**
 * Runs the command line of this checkout. The long steps of the set-up run when a command first needs libtorch or the
 * addon, after the command has checked its arguments and files.
 */
import { join } from "node:path";
import { SconceError } from "../src/base/errors.ts";
import { main } from "../src/cli/cli.ts";
import { setLibraries } from "../src/package/model-source.ts";
import { isSetUp } from "./setup.ts";

async function setUp(): Promise<void> {
  if (isSetUp()) return;
  const command = [process.execPath, "--no-install", join(import.meta.dir, "setup.ts"), "--quiet"];
  const child = Bun.spawn(command, { env: process.env, stdin: "ignore", stdout: "inherit", stderr: "inherit" });
  if ((await child.exited) === 0) return;
  throw new SconceError("native_unavailable", "the set-up failed (see above)", { fix: "run `npm run setup` again" });
}

setLibraries({ prepareLibraries: setUp, unpackLibraries: setUp });

await main(process.argv.slice(2));
