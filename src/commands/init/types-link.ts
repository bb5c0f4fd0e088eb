/** How the compiler finds the types of sconce from a model's folder: by a link that no package manager knows, and no path of this machine in any file. */
import { existsSync, lstatSync } from "node:fs";
import { mkdir, rm, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { sourcesFolder } from "../../compile/sources.ts";

/** npm removes links in node_modules that no package.json names. */
const LINK = ".sconce/types";

/** Links this sconce, where the folder is outside it and has no sconce installed. */
export async function linkTypes(dir: string): Promise<void> {
  const root = await sourcesFolder();
  if (isInside(dir, root) || hasPackage(dir)) return;
  const link = join(dir, LINK);
  await mkdir(dirname(link), { recursive: true });
  await rm(link, { force: true });
  await symlink(root, link);
}

/** Links this sconce into a folder whose tsconfig.json wants that, as in a fresh clone. */
export async function restoreTypes(dir: string): Promise<void> {
  const settings = Bun.file(join(dir, "tsconfig.json"));
  if (existsSync(join(dir, LINK)) || !(await settings.exists())) return;
  if ((await settings.text()).includes(`./${LINK}`)) await linkTypes(dir);
}

/** The text of a tsconfig.json with the settings and the types of sconce; its paths are relative to the folder. */
export async function typesConfig(dir: string): Promise<string> {
  const root = await sourcesFolder();
  const isOwn = isInside(dir, root);
  const path = isOwn ? relative(dir, root) : hasPackage(dir) ? "./node_modules/sconce" : `./${LINK}`;
  const compilerOptions = {
    ...(existsSync(join(root, "node_modules/bun-types")) && { typeRoots: [`${path}/node_modules`] }),
    ...(path === `./${LINK}` && { paths: { sconce: [path] } }),
  };
  return `${JSON.stringify({ extends: `${path}/tsconfig.json`, compilerOptions, include: ["."] }, null, 2)}\n`;
}

function isInside(dir: string, root: string): boolean {
  return !relative(root, dir).startsWith("..");
}

/** Whether sconce is installed there, and not linked. */
function hasPackage(dir: string): boolean {
  return lstatSync(join(dir, "node_modules/sconce"), { throwIfNoEntry: false })?.isDirectory() ?? false;
}
