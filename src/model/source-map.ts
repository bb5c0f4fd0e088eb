/** The source map that a bundle carries, so that stack traces name the author's files and lines. */
import { realpathSync } from "node:fs";
import { relative, resolve } from "node:path";
import { z } from "zod";

const mapSchema = z.object({ sources: z.array(z.string()), mappings: z.string() });

/**
 * A bundle with its map as a last line, which Bun reads when a stack is asked for: the same for the same content wherever the folder lies.
 *
 * @param map as Bun made it, which names sources as seen from the current folder
 * @param dir the model's folder, absolute
 */
export function withSourceMap(code: string, map: string, dir: string): string {
  const { sources, mappings } = mapSchema.parse(JSON.parse(map));
  const root = realpathSync(dir);
  const own = {
    version: 3,
    sources: sources.map((source) => relative(root, resolve(source)).replace(/^.*(?=node_modules\/)/, "")),
    // Bun refuses a map without them.
    sourcesContent: sources.map(() => null),
    names: [],
    mappings,
  };
  const url = `data:application/json;base64,${Buffer.from(JSON.stringify(own)).toString("base64")}`;
  return `${code.replace(/\n+\/\/# debugId=.*\n*$/, "\n")}//# sourceMappingURL=${url}\n`;
}
