/** Which npm packages have a native part that bundling leaves behind: a package of its own for each kind of machine. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

const packageSchema = z.looseObject({ optionalDependencies: z.record(z.string(), z.string()) });
const machineSchema = z.looseObject({ cpu: z.array(z.string()) });

/** @param sources absolute paths of what a bundle was made of */
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

/** @returns undefined where there is none that can be read: what was bundled needs none */
function readPackage(folder: string): unknown {
  try {
    // Some begin with a byte order mark, which npm and bundlers pass over.
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8").replace(/^\uFEFF/, ""));
  } catch {
    return undefined;
  }
}
