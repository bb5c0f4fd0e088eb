/** A model store with the models that do what a test asks for, and the folder in which tortured servers keep their files. */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { cli } from "../helpers/cli.ts";
import { compiledOperators } from "../helpers/operators.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

export interface ModelHome extends AsyncDisposable {
  /** For `SCONCE_HOME`; it holds `torture` and `torture-code`. */
  readonly path: string;
}

export async function modelHome(): Promise<ModelHome> {
  const operators = await compiledOperators();
  await using opened = new AsyncDisposableStack();
  const home = opened.use(await tempDir());
  for (const name of ["model", "code-model"]) {
    await using folder = await tempDir();
    await build(folder, { name, operators, home: home.path });
  }
  const resources = opened.move();
  return { path: home.path, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

async function build(
  folder: TempDir,
  { name, operators, home }: { readonly name: string; readonly operators: string; readonly home: string },
): Promise<void> {
  await cp(join(import.meta.dir, name, "model.ts"), folder.join("model.ts"));
  for (const file of ["fault.pt", "operators.so"]) await cp(join(operators, file), folder.join(file));
  const { code, stderr } = await cli(["build", folder.path], { env: { SCONCE_HOME: home } });
  if (code !== 0) throw new Error(`the build of ${name} failed: ${stderr}`);
}
