/** Writes the type declarations of the module `sconce`, for compilers without the types of Bun. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "../setup/command.ts";
import { root } from "../setup/step.ts";

const entries = ["index", "testing"];

/** Writes the declarations. @param folder gets index.d.ts, testing.d.ts and the files that they import */
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
    files: entries.map((name) => join(root, "src", `${name}.ts`)),
  };
  writeFileSync(config, JSON.stringify(settings));
  await run([process.execPath, join(root, "node_modules/typescript/bin/tsc"), "-p", config], { verbose: false });
  rmSync(config);
  const needed = new Set<string>();
  for (const name of entries) addImports(join(folder, `${name}.d.ts`), needed);
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts")) continue;
    const path = join(folder, name);
    // Removes declarations that only the code of `sconce/testing` imports, because they need the types of Bun.
    if (!needed.has(path)) {
      rmSync(path);
      continue;
    }
    // Renames imports of .ts files to .js, because by default compilers refuse imports of .ts files.
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(/(?<=(?:from |import\()"\.{1,2}\/[^"]*)\.ts"/g, '.js"'));
  }
}

function addImports(path: string, found: Set<string>): void {
  if (found.has(path)) return;
  found.add(path);
  for (const [, name = ""] of readFileSync(path, "utf8").matchAll(/(?:from |import\()"(\.{1,2}\/[^"]*)\.ts"/g))
    addImports(join(dirname(path), `${name}.d.ts`), found);
}
