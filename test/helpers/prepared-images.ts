/** An image layout that has the layer of libtorch and the server: compressing it is no part of a test, and is done a little worse here. */
import { join } from "node:path";
import { state } from "../../scripts/setup/step.ts";
import { writeImage } from "../../src/package/image/image.ts";
import { ImageLayout } from "../../src/package/image/layout.ts";
import { imagePlatform } from "../../src/package/image/platform.ts";
import { makeProgram } from "../../src/package/image/program.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { cli } from "./cli.ts";
import { tempDir } from "./temp-dir.ts";

const folder = join(state, "cache", "images");
const digits = join(import.meta.dir, "../../examples/digits");

/** Writes it with the program as it is now; a few seconds where nothing has changed. */
export async function preparedImages(): Promise<void> {
  await using store = await tempDir();
  const { code, stderr } = await cli(["build", digits], { env: { SCONCE_HOME: store.path } });
  if (code !== 0) throw new Error(stderr);
  await using workspace = await tempDir();
  await writeImage(ImageLayout.openOrCreate(folder), {
    model: await new ModelStore(store.path).resolve("digits"),
    home: store.path,
    program: await makeProgram(workspace.path),
    platform: imagePlatform(),
    name: "prepared",
    seconds: 0,
    level: 1,
  });
}

/** A copy of the prepared layout at `path`. */
export async function copyPreparedImages(path: string): Promise<void> {
  await Bun.$`cp -al ${folder} ${path}`;
}
