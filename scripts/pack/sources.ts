/**
 * Packs sconce's sources for an executable with all commands. The executable compiles models from these sources, and
 * editors read the types in them.
 */
import { existsSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { pixelsFile } from "../../src/base/platform-package.ts";
import { temporaryFolder } from "../../src/machine/files/temporary-folder.ts";
import { sha256 } from "../../src/machine/libtorch/pack.ts";
import type { SourceArchive } from "../../src/package/executable/contents.ts";
import { entryModules } from "../../src/package/executable/entry-modules.ts";
import { tar } from "../../src/package/image/tar.ts";
import { root } from "../setup/step.ts";

const template = "src/cli/commands/init/template";
/** Compression level. Each higher level takes 50 % longer and saves 3 %. */
const LEVEL = 6;

/** Writes the archive. Equal sources give equal bytes. */
export async function packSources(path: string): Promise<SourceArchive> {
  const names = new Set(["LICENSE", "package.json", "tsconfig.json"]);
  for (const name of readdirSync(join(root, template))) names.add(join(template, name));
  for (const file of [...(await compiledFiles()), ...(await typeFiles())]) {
    const name = nameOf(file);
    names.add(name);
    for (const owner of packagesOf(name)) names.add(owner);
  }
  const entries = [...names].sort().map((name) => ({
    kind: "file" as const,
    path: name,
    mode: 0o644,
    source: join(root, name),
  }));
  const archive = new Uint8Array(Buffer.concat(await Array.fromAsync(tar(entries), (chunk) => chunk.slice())));
  await Bun.write(path, await Bun.zstdCompress(archive, { level: LEVEL }));
  return { path, digest: await sha256(archive) };
}

/**
 * The files that Bun reads to compile an executable of a model. `sideEffects` of packages is ignored: it would leave
 * out unused re-exported files, which Bun still looks for when it compiles.
 */
async function compiledFiles(): Promise<string[]> {
  using folder = temporaryFolder(tmpdir(), "sconce-pack-");
  const pixels = pixelsFile();
  const modules = entryModules({ torch: "", libraries: "beside", pixels, model: "beside" }, root);
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(folder.path, name), text);
  const { metafile } = await Bun.build({
    entrypoints: Object.keys(modules).map((name) => join(folder.path, name)),
    target: "bun",
    metafile: true,
    ignoreDCEAnnotations: true,
  });
  const own = realpathSync(folder.path);
  return Object.keys(metafile?.inputs ?? {})
    .map((path) => resolve(path))
    .filter((path) => path !== pixels && !path.startsWith(own));
}

/** The files that the TypeScript compiler reads to check a model. */
async function typeFiles(): Promise<string[]> {
  using folder = temporaryFolder(tmpdir(), "sconce-pack-");
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { typeRoots: [join(root, "node_modules")] },
    include: [],
    files: [join(root, template, "model.ts")],
  };
  writeFileSync(join(folder.path, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const listed = await Bun.$`${process.execPath} --bun ${compiler} -p ${folder.path} --listFilesOnly`.text();
  // Leaves out the declarations of the language, which every compiler has.
  return listed.split("\n").filter((path) => path !== "" && !/\/lib\.[^/]*\.d\.ts$/.test(path));
}

/** Path of a file relative to the checkout, whose node_modules may be a symbolic link. */
function nameOf(file: string): string {
  const at = file.indexOf("/node_modules/");
  return at < 0 ? relative(realpathSync(root), realpathSync(file)) : file.slice(at + 1);
}

/** Paths of the package.json files above a file in node_modules. */
function packagesOf(name: string): string[] {
  const found: string[] = [];
  if (!name.startsWith("node_modules/")) return found;
  for (let folder = dirname(name); folder !== "node_modules"; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(join(root, path))) found.push(path);
  }
  return found;
}
