/**
 * A store with two builds of the model `lab` whose outputs differ. With `BROKEN_BUILD=v1` in the environment, `setup`
 * of that build fails.
 */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { build as buildCommand } from "../../src/cli/commands/build.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { commandHere } from "./command-here.ts";
import { writeModel } from "./model-text.ts";
import { modelFolder, storeWith, type TestStore } from "./server.ts";
import { shared } from "./shared.ts";
import { tempDir } from "./temp-dir.ts";

/** Number that each build adds to the outputs 2 x + 1. */
export const beyond = { v1: 0, v2: 1000 } as const;
export type Build = keyof typeof beyond;

export interface BuildsStore extends TestStore {
  /** Reference of each build: `lab:` and its generated tag. */
  readonly names: Readonly<Record<Build, string>>;
}

export async function storeOfBuilds(): Promise<BuildsStore> {
  const store = await storeWith();
  const built = await shared("builds", buildBoth);
  if (built === undefined) await buildBoth(store.home);
  else await cp(built, store.home, { recursive: true });
  const models = new ModelStore(store.home);
  const nameOf = async (build: Build) => `lab:${(await models.resolve(`lab:${build}`)).digest.slice(7, 19)}`;
  return {
    ...store,
    names: { v1: await nameOf("v1"), v2: await nameOf("v2") },
  };
}

async function buildBoth(home: string): Promise<void> {
  await using source = await tempDir();
  const text = await Bun.file(join(modelFolder("lab"), "model.ts")).text();
  for (const [build, more] of Object.entries(beyond)) {
    const setup = `setup() { if (process.env.BROKEN_BUILD === "${build}") throw new Error("${build} is broken"); },`;
    const changed = text
      .replace("(y.data[0] ?? 0)", `(y.data[0] ?? 0) + ${more}`)
      .replace("  batchSize:", `  ${setup}\n  batchSize:`);
    const folder = await writeModel(source, changed, build);
    await commandHere(buildCommand, ["--allow-random", "--no-compare", "-t", `:${build}`, folder], { home });
  }
}
