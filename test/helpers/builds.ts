/**
 * A store with two builds of the model `lab` whose outputs differ. With `BROKEN_BUILD=v1` in the environment, `setup`
 * of that build fails.
 */
import { join } from "node:path";
import { ModelStore } from "../../src/package/store/store.ts";
import { cli } from "./cli.ts";
import { writeModel } from "./model-text.ts";
import { modelFolder, storeWith, type TestStore } from "./server.ts";
import { tempDir } from "./temp-dir.ts";

/** Number that each build adds to the outputs 2 x + 1. */
export const beyond = { v1: 0, v2: 1000 } as const;
export type Build = keyof typeof beyond;

export interface BuildsStore extends TestStore {
  /** Reference of each build: `lab:` and its generated tag. */
  readonly names: Readonly<Record<Build, string>>;
}

export async function storeOfBuilds(): Promise<BuildsStore> {
  await using source = await tempDir();
  const store = await storeWith();
  const text = await Bun.file(join(modelFolder("lab"), "model.ts")).text();
  for (const [build, more] of Object.entries(beyond)) {
    const setup = `setup() { if (process.env.BROKEN_BUILD === "${build}") throw new Error("${build} is broken"); },`;
    const changed = text
      .replace("(y.data[0] ?? 0)", `(y.data[0] ?? 0) + ${more}`)
      .replace("  batchSize:", `  ${setup}\n  batchSize:`);
    const folder = await writeModel(source, changed, build);
    const { code, stderr } = await cli(["build", "--allow-random", "-t", `:${build}`, folder], {
      env: { SCONCE_HOME: store.home },
    });
    if (code !== 0) throw new Error(stderr);
  }
  const models = new ModelStore(store.home);
  const nameOf = async (build: Build) => `lab:${(await models.resolve(`lab:${build}`)).digest.slice(7, 19)}`;
  return {
    ...store,
    names: { v1: await nameOf("v1"), v2: await nameOf("v2") },
  };
}
