/** An image layout that has the layer of libtorch and the server: compressing it takes twenty seconds, and is no part of a test. */
import { join } from "node:path";
import { state } from "../../scripts/setup/step.ts";
import { cli } from "./cli.ts";
import { tempDir } from "./temp-dir.ts";

const folder = join(state, "cache", "images");
const digits = join(import.meta.dir, "../../examples/digits");

/** Writes it with the program as it is now; a few seconds where nothing has changed. */
export async function preparedImages(): Promise<void> {
  await using store = await tempDir();
  const env = { SCONCE_HOME: store.path };
  for (const command of [
    ["build", digits],
    ["image", "digits", "-o", folder, "--tag", "prepared"],
  ]) {
    const { code, stderr } = await cli(command, { env });
    if (code !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
  }
}

/** A layout of one's own with what was prepared. */
export async function copyPreparedImages(path: string): Promise<void> {
  await Bun.$`cp -al ${folder} ${path}`;
}
