/** An OCI image layout with the layers of libtorch and the server. A low compression level makes it fast to write. */
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

/** Writes the layout for the current sources, which takes a few seconds even if nothing has changed. */
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
    level: 1,
  });
}

/** Copies the layout to `path`, with hard links. */
export async function copyPreparedImages(path: string): Promise<void> {
  await Bun.$`cp -al ${folder} ${path}`;
}
