/**
 * Lets TypeScript find sconce's types from a model's folder. A symbolic link leads to them, so that no file contains a
 * path of this machine.
 */
import { existsSync, lstatSync } from "node:fs";
import { mkdir, rm, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { sourcesFolder } from "../../../package/executable/sources.ts";

/** Path of the link. It is outside node_modules, because npm removes links there that no package.json names. */
const LINK = ".sconce/types";

/** Makes the link in a folder, unless the folder is inside sconce or has sconce installed. */
export async function linkTypes(dir: string): Promise<void> {
  const root = await sourcesFolder();
  if (isInside(dir, root) || hasPackage(dir)) return;
  const link = join(dir, LINK);
  await mkdir(dirname(link), { recursive: true });
  await rm(link, { force: true });
  await symlink(root, link);
}

/** Makes the link again if tsconfig.json refers to it, for example in a fresh clone. */
export async function restoreTypes(dir: string): Promise<void> {
  const settings = Bun.file(join(dir, "tsconfig.json"));
  if (existsSync(join(dir, LINK)) || !(await settings.exists())) return;
  if ((await settings.text()).includes(`./${LINK}`)) await linkTypes(dir);
}

/** Text of a tsconfig.json with sconce's settings and types. Its paths are relative to the folder. */
export async function typesConfig(dir: string): Promise<string> {
  const root = await sourcesFolder();
  const isOwn = isInside(dir, root);
  const path = isOwn ? relative(dir, root) : hasPackage(dir) ? "./node_modules/sconce" : `./${LINK}`;
  const compilerOptions = {
    ...(existsSync(join(root, "node_modules/bun-types")) && { typeRoots: [`${path}/node_modules`] }),
    ...(path === `./${LINK}` && { paths: { sconce: [path], "sconce/testing": [`${path}/src/testing.ts`] } }),
  };
  return `${JSON.stringify({ extends: `${path}/tsconfig.json`, compilerOptions, include: ["."] }, null, 2)}\n`;
}

function isInside(dir: string, root: string): boolean {
  return !relative(root, dir).startsWith("..");
}

/** Whether sconce is installed in the folder as a package, not as a link. */
function hasPackage(dir: string): boolean {
  return lstatSync(join(dir, "node_modules/sconce"), { throwIfNoEntry: false })?.isDirectory() ?? false;
}
