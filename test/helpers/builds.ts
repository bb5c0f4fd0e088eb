/**
 * A store with three builds of the model `lab` whose outputs differ. With `BROKEN_BUILD=v1` in the environment, `setup`
 * of that build fails.
 */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { build as buildCommand } from "../../src/cli/commands/build.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import type { PredictionBody } from "./client.ts";
import { commandHere } from "./command-here.ts";
import { tempDir } from "./fixture.ts";
import { writeModel } from "./model-text.ts";
import { modelFolder, storeWith, type TestStore } from "./server.ts";
import { shared } from "./shared.ts";

/** Number that each build adds to the outputs 2 x + 1. */
export const beyond = { v1: 0, v2: 1000, v3: 2000 } as const;
export type Build = keyof typeof beyond;
const builds = ["v1", "v2", "v3"] as const satisfies readonly Build[];

export interface BuildsStore extends TestStore {
  /** Reference of each build: `lab:` and its generated tag. */
  readonly names: Readonly<Record<Build, string>>;
  /** Makes the tag name this build. */
  tag(tag: string, build: Build): void;
  /** Whether a prediction has the output of the build that it names. `x` is the number in its input. */
  isRight(body: PredictionBody, x: number): boolean;
}

export async function storeOfBuilds(): Promise<BuildsStore> {
  const store = await storeWith();
  const built = await shared("builds", buildAll);
  if (built === undefined) await buildAll(store.home);
  else await cp(built, store.home, { recursive: true });
  const models = new ModelStore(store.home);
  const nameOf = async (build: Build) => `lab:${(await models.resolve(`lab:${build}`)).digest.slice(7, 19)}`;
  const names = { v1: await nameOf("v1"), v2: await nameOf("v2"), v3: await nameOf("v3") };
  return {
    ...store,
    names,
    tag: (tag, build) => models.tag(`lab:${build}`, `lab:${tag}`),
    isRight: ({ model, outputs }, x) =>
      builds.some(
        (build) =>
          names[build] === `lab:${model?.digest.slice(7, 19)}` && outputs?.[0]?.y === 2 * x + 1 + beyond[build],
      ),
  };
}

async function buildAll(home: string): Promise<void> {
  await using source = await tempDir();
  const text = await Bun.file(join(modelFolder("lab"), "model.ts")).text();
  for (const build of builds) {
    const setup = `setup() { if (process.env.BROKEN_BUILD === "${build}") throw new Error("${build} is broken"); },`;
    const changed = text
      .replace("(y.data[0] ?? 0)", `(y.data[0] ?? 0) + ${beyond[build]}`)
      .replace("  batchSize:", `  ${setup}\n  batchSize:`);
    const folder = await writeModel(source, changed, build);
    await commandHere(buildCommand, ["--allow-random", "-t", `:${build}`, folder], { home });
  }
}
