/** A model store with the models for fault injection. */
import { cp } from "node:fs/promises";
import { basename, join } from "node:path";
import { cli } from "../helpers/cli.ts";
import { tempDir } from "../helpers/fixture.ts";
import { compiledOperators } from "../helpers/operators.ts";
import { shared } from "../helpers/shared.ts";

export interface ModelHome extends AsyncDisposable {
  /** Value of SCONCE_HOME for a store with the models `torture`, `torture-code` and `greedy`. */
  readonly path: string;
}

export async function modelHome(): Promise<ModelHome> {
  const path = await shared("torture", buildAll);
  if (path !== undefined) return { path, [Symbol.asyncDispose]: async () => {} };
  const home = await tempDir();
  await buildAll(home.path);
  return home;
}

async function buildAll(home: string): Promise<void> {
  const operators = await compiledOperators();
  const faulty = ["fault.pt", "operators.so"].map((file) => join(operators, file));
  for (const name of ["model", "code-model"]) await build(name, faulty, home);
  await buildFolder(join(import.meta.dir, "../models/greedy"), home);
}

async function build(name: string, files: readonly string[], home: string): Promise<void> {
  await using folder = await tempDir();
  for (const file of [join(import.meta.dir, name, "model.ts"), ...files]) {
    await cp(file, folder.join(basename(file)));
  }
  await buildFolder(folder.path, home);
}

async function buildFolder(path: string, home: string): Promise<void> {
  const { code, stderr } = await cli(["build", path], { env: { SCONCE_HOME: home } });
  if (code !== 0) throw new Error(`the build of ${path} failed: ${stderr}`);
}
