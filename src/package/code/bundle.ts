/** Bundles a model's TypeScript, with the npm packages it uses, into one ES module. */
import { existsSync, realpathSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { suppliedModules } from "./load.ts";

const entryNames = ["model.ts", "model.js", "model.mts", "model.mjs"];

/** Path of the file with a folder's model; undefined if the folder has none. A model.js beside model.ts is its output. */
export function modelFile(dir: string): string | undefined {
  return entryNames.map((name) => join(dir, name)).find((path) => existsSync(path));
}

export interface Bundle {
  /** Text of the ES module. Equal sources give equal text, wherever the folder is. */
  readonly code: string;
  /** Absolute paths of the bundled source files. */
  readonly sources: readonly string[];
}

/**
 * Bundles the entry file of a model's folder with all that it imports.
 * @param dir the model's folder, absolute
 * @param externals npm packages that are not bundled
 * @throws SconceError `model_invalid` when there is no entry file, or the code does not compile, or imports native code
 * or a file that is not code
 */
export async function bundleModel(dir: string, externals: readonly string[] = []): Promise<Bundle> {
  const entry = modelFile(dir);
  if (entry === undefined) {
    throw new SconceError(
      "model_invalid",
      `${dir} has no model.ts; a model folder has one, with: export default defineModel({ … })`,
    );
  }
  const result = await Bun.build({
    entrypoints: [entry],
    external: [...suppliedModules, ...externals.flatMap((name) => [name, `${name}/*`])],
    target: "bun",
    format: "esm",
    // Without a fixed value, NODE_ENV of the build machine would change the bundle's digest.
    define: { "process.env.NODE_ENV": '"production"' },
    root: dir,
    // Removes comments, because Bun's own comments contain paths relative to the current folder.
    minify: { whitespace: true },
    naming: { asset: "[dir]/[name].[ext]" },
    sourcemap: "external",
    throw: false,
    metafile: true,
  });
  const [output, ...others] = result.outputs;
  const map = others.find(({ kind }) => kind === "sourcemap");
  for (const other of others) if (other !== map) throw noCode(other.path);
  if (result.success && output !== undefined && map !== undefined) {
    return {
      code: withSourceMap(await output.text(), await map.text(), dir),
      sources: Object.keys(result.metafile?.inputs ?? {}).map((path) => resolve(path)),
    };
  }
  const faults = result.logs
    .filter(({ level }) => level === "error")
    .map(({ message, position }) => {
      const fault = buildFault(message);
      return position ? `${relative(dir, position.file)}:${position.line}: ${fault}` : fault;
    });
  throw new SconceError("model_invalid", `the model's code does not compile: ${faults.join("; ")}`);
}

/** Rewrites Bun's message about a missing package, because it suggests `bun install` for every package manager. */
function buildFault(message: string): string {
  const [, name] = /^Could not resolve: "([^"]+)"\. Maybe you need to "bun install"\?$/.exec(message) ?? [];
  if (name === undefined) return message;
  const owner = /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
  return `the package ${owner} is not installed: install it in the model's folder, or leave it out with --external ${owner} if the code does without it`;
}

/** The error for an imported file that cannot be bundled: native code, or a file that is not code. */
function noCode(path: string): SconceError {
  const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
  const whose = name === undefined ? "the model's code" : `the npm package ${name}, which the model's code uses,`;
  const fix = path.endsWith(".node")
    ? `native code is not packaged: use a package without it, or let the weights do its work${name === undefined ? "" : `, or leave it out with --external ${name} if the code does without it`}`
    : "only code is bundled: declare the file under assets, and read it in setup";
  return new SconceError("model_invalid", `${whose} imports ${basename(path)}: ${fix}`);
}

const mapSchema = z.object({ sources: z.array(z.string()), mappings: z.string() });

/**
 * Appends the source map to a bundle as its last line, where Bun finds it: stack traces name the author's files. Equal sources give equal text, wherever the
 * model's folder is.
 * @param map Bun's map, with sources relative to the current folder
 * @param dir the model's folder, absolute
 */
function withSourceMap(code: string, map: string, dir: string): string {
  const { sources, mappings } = mapSchema.parse(JSON.parse(map));
  const root = realpathSync(dir);
  const own = {
    version: 3,
    sources: sources.map((source) => relative(root, resolve(source)).replace(/^.*(?=node_modules\/)/, "")),
    // Bun needs `sourcesContent`, even without texts.
    sourcesContent: sources.map(() => null),
    names: [],
    mappings,
  };
  const url = `data:application/json;base64,${Buffer.from(JSON.stringify(own)).toString("base64")}`;
  return `${code.replace(/\n+\/\/# debugId=.*\n*$/, "\n")}//# sourceMappingURL=${url}\n`;
}
