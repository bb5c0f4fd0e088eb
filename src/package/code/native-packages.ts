/**
 * Finds npm packages in the code of a model whose native part a bundle cannot contain. Such packages list one optional
 * dependency per platform.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

const packageSchema = z.looseObject({ optionalDependencies: z.record(z.string(), z.string()) });
const machineSchema = z.looseObject({ cpu: z.array(z.string()) });

/**
 * Names of the npm packages with native code.
 * @param sources absolute paths of the bundled files
 */
export function nativePackages(sources: readonly string[]): string[] {
  const packages = new Map<string, { readonly modules: string; readonly root: string }>();
  for (const source of sources) {
    const [root = "", modules = "", name] = /(.*node_modules\/)((?:@[^/]+\/)?[^/]+)/.exec(source) ?? [];
    if (name !== undefined) packages.set(name, { modules, root });
  }
  return [...packages].filter(([, found]) => hasNativePart(found)).map(([name]) => name);
}

function hasNativePart({ modules, root }: { readonly modules: string; readonly root: string }): boolean {
  const { optionalDependencies = {} } = packageSchema.safeParse(readPackage(root)).data ?? {};
  const folders = [join(root, "node_modules"), modules];
  return Object.keys(optionalDependencies).some((name) =>
    folders.some((folder) => machineSchema.safeParse(readPackage(join(folder, name))).success),
  );
}

function readPackage(folder: string): unknown {
  try {
    // Removes a byte order mark, which npm and bundlers ignore.
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8").replace(/^\uFEFF/, ""));
  } catch {
    return undefined;
  }
}
