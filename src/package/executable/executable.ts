/**
 * Compiles the server or the command line into one executable file, which may contain a model and the native libraries.
 */
import { chmodSync, renameSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { pixelsName } from "../../base/platform-package.ts";
import { type TemporaryFolder, temporaryFolder } from "../../machine/files/temporary-folder.ts";
import { cacheLocation, secureFolder } from "../../machine/libtorch/cache-folder.ts";
import { nativeLocation } from "../../machine/libtorch/native-location.ts";
import { PackagedModel } from "../store/packaged-model.ts";
import { generatedTag, latestTag } from "../store/reference.ts";
import type { CommandLineContents, Contents, EmbeddedModel, SourceArchive } from "./contents.ts";
import { entryModules } from "./entry-modules.ts";
import { cpuLibraryFiles, libraryFiles } from "./library-files.ts";
import { packLibraries } from "./library-pack.ts";
import { sourcesFolder } from "./sources.ts";
import { ownTarget, type Target } from "./target.ts";

export interface CompileOptions {
  readonly outfile: string;
  /**
   * `beside`: the executable reads the model from a store in the folder `model` beside it. A source archive in place of
   * a model makes an executable with all commands.
   */
  readonly model: PackagedModel | "beside" | SourceArchive;
  /**
   * Place of libtorch. `embedded`: in the executable, which unpacks it at the first start. `external`: on the machine,
   * found at start. `beside`: with the addon in the folder `lib` beside the executable.
   */
  readonly libtorch: "embedded" | "external" | "beside";
  /** Default: this machine. */
  readonly target?: Target;
  /** Called with the size of the libraries before their compression. Not called if the cache has their pack. */
  readonly onPacking?: (bytes: number) => void;
}

export interface CompileResult {
  /** Size in bytes of the whole executable. */
  readonly size: number;
  readonly librariesSize: number;
  readonly modelSize: number;
}

/**
 * Compiles an executable. Equal program, model and libraries give equal bytes.
 * @throws SconceError `usage` outside Linux, for an unwritable output, a full disk or a too large model;
 * `native_unavailable` without addon or libtorch, or when Bun cannot compile; `cache_unusable` when the cache folder
 * cannot be used
 */
export async function compileExecutable(options: CompileOptions): Promise<CompileResult> {
  const outfile = resolve(options.outfile);
  const target =
    options.target ?? ownTarget(await (options.libtorch === "embedded" ? cpuLibraryFiles() : libraryFiles()));
  using workspace = openWorkspace(outfile);
  const folder = workspace.path;
  const { libraries, librariesSize } = await packed(target, folder, options);
  const { model } = options;
  const modelSize = model instanceof PackagedModel ? model.size : 0;
  if (model instanceof PackagedModel) requireFitting(librariesSize, model);
  // The addon is copied, because Bun cannot embed a file from inside an executable.
  const pixels = join(folder, pixelsName);
  await Bun.write(pixels, Bun.file(target.pixels));
  const program = { torch: target.files.torch, libraries, pixels };
  const contents =
    model instanceof PackagedModel
      ? { ...program, model: embed(model) }
      : model === "beside"
        ? { ...program, model }
        : { ...program, sources: model };
  const built = join(folder, "executable");
  requireSpace(folder, target.bun, librariesSize + modelSize);
  await build(folder, built, contents, target);
  chmodSync(built, 0o755);
  renameSync(built, outfile);
  return { size: statSync(outfile).size, librariesSize, modelSize };
}

/** Largest total of embedded files in bytes. Bun stores sizes in 32 bits, and fails silently above 4 GiB. */
const MAX_INSIDE_BYTES = 4e9;

function requireFitting(librariesSize: number, model: PackagedModel): void {
  if (librariesSize + model.size < MAX_INSIDE_BYTES) return;
  throw new SconceError(
    "usage",
    `the model ${model.reference} has ${formatBytes(model.size)}, and an executable holds less than ${formatBytes(MAX_INSIDE_BYTES)}: make a container image of it with "sconce image"`,
  );
}

/**
 * Checks for free disk space, because Bun's own error is vague.
 * @throws SconceError `usage` when the disk cannot hold Bun and the embedded files
 */
function requireSpace(folder: string, bun: string, insideBytes: number): void {
  const needed = statSync(bun).size + insideBytes;
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize >= needed) return;
  throw new SconceError(
    "usage",
    `${dirname(folder)} has ${formatBytes(bavail * bsize)} free; ${formatBytes(needed)} are needed: name a file elsewhere with --output`,
  );
}

/** Makes a temporary folder beside the output, so that the finished file can be renamed into place. */
function openWorkspace(outfile: string): TemporaryFolder {
  const existing = statSync(outfile, { throwIfNoEntry: false });
  if (existing?.isDirectory()) throw new SconceError("usage", `${outfile} is a folder; name a file with --output`);
  try {
    return temporaryFolder(dirname(outfile), `.${basename(outfile)}-`);
  } catch (error) {
    throw new SconceError(
      "usage",
      `${outfile} cannot be written (${messageOf(error)}); name another file with --output`,
      {
        cause: error,
      },
    );
  }
}

async function packed(
  { arch, files: { addon, libtorch } }: Target,
  folder: string,
  options: CompileOptions,
): Promise<{ libraries: Contents["libraries"]; librariesSize: number }> {
  if (options.libtorch === "beside") return { libraries: "beside", librariesSize: 0 };
  const hasLibtorch = options.libtorch === "embedded";
  const own = nativeLocation()?.unpacked?.pack;
  // The running executable contains compressed libraries already, so they are copied.
  if (hasLibtorch && own?.hasLibtorch && arch === process.arch) {
    const path = join(folder, "libraries");
    const librariesSize = await Bun.write(path, Bun.file(own.path));
    return { libraries: { ...own, path }, librariesSize };
  }
  const cache = cacheLocation(process.env.SCONCE_CACHE_DIR);
  const pack = await packLibraries(hasLibtorch ? [addon, ...libtorch] : [addon], {
    // Only packs with libtorch go to the cache, because the addon alone compresses quickly.
    cacheFolder: hasLibtorch && cache !== undefined ? secureFolder(cache) : folder,
    onPacking: options.onPacking,
  });
  return { libraries: { ...pack, hasLibtorch }, librariesSize: statSync(pack.path).size };
}

function embed({ repository, tag, digest, size, manifest, config, layers }: PackagedModel): EmbeddedModel {
  return {
    repository,
    // `latest` may later name another build, so the tag made from the digest replaces it.
    tag: tag === latestTag ? generatedTag(digest) : tag,
    digest,
    size,
    manifest,
    config,
    layers: Object.fromEntries(layers.map(({ title, path }) => [title, path])),
  };
}

async function build(
  folder: string,
  outfile: string,
  contents: Contents | CommandLineContents,
  { arch, bun }: Target,
): Promise<void> {
  const entries = Object.entries(entryModules(contents, await sourcesFolder()));
  const modules = entries.map(([name, text]) => ({ path: join(folder, name), text }));
  for (const { path, text } of modules) writeFileSync(path, text);
  const result = await Bun.build({
    entrypoints: modules.map(({ path }) => path),
    compile: {
      outfile,
      // Bun replaces `process.arch` by the target's.
      ...(arch !== process.arch && { target: `bun-linux-${arch}`, executablePath: bun }),
      // The executable ignores .env and bunfig.toml files in its working directory.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
    target: "bun",
    format: "esm",
    // Sets a fixed value, so that NODE_ENV of the build machine has no effect.
    define: { "process.env.NODE_ENV": '"production"' },
    minify: true,
    // Bytecode saves 100 ms of parsing at each start.
    bytecode: true,
    throw: false,
  });
  if (result.success) return;
  throw new SconceError(
    "native_unavailable",
    `the program could not be compiled: ${result.logs.map(messageOf).join("; ")}`,
  );
}
