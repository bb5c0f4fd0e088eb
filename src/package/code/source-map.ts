/** Puts the source map into a bundle, so that stack traces name the author's files and lines. */
import { realpathSync } from "node:fs";
import { relative, resolve } from "node:path";
import { z } from "zod";

const mapSchema = z.object({ sources: z.array(z.string()), mappings: z.string() });

/**
 * Appends the source map to a bundle as its last line, where Bun finds it. Equal sources give equal text, wherever the
 * model's folder is.
 * @param map Bun's map, with sources relative to the current folder
 * @param dir the model's folder, absolute
 */
export function withSourceMap(code: string, map: string, dir: string): string {
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
