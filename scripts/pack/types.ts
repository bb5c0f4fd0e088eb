/** Writes the type declarations of the module that authors import, for compilers without the types of Bun. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../setup/command.ts";
import { root } from "../setup/step.ts";

/** @param folder gets index.d.ts and its dependencies */
export async function writeTypes(folder: string): Promise<void> {
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: join(root, "src"),
    outDir: folder,
    typeRoots: [join(root, "node_modules")],
  };
  const config = `${folder}.json`;
  const settings = {
    extends: join(root, "tsconfig.json"),
    compilerOptions,
    include: [],
    files: [join(root, "src/index.ts")],
  };
  writeFileSync(config, JSON.stringify(settings));
  await run([process.execPath, join(root, "node_modules/typescript/bin/tsc"), "-p", config], { verbose: false });
  rmSync(config);
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, name);
    // By default, imports of .ts files are errors.
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(/(?<=(?:from |import\()"\.{1,2}\/[^"]*)\.ts"/g, '.js"'));
  }
}
