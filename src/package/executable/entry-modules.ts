/** Generates the TypeScript entry modules that are compiled into an executable. */
import { join } from "node:path";
import type { CommandLineContents, Contents } from "./contents.ts";

/**
 * Source files of the worker threads, by the file name with which `new Worker` starts them. The executable needs an
 * entry module of this name for each.
 */
const workers = {
  "sqlite-worker.ts": "predictions/sqlite/sqlite-worker.ts",
} as const;

/**
 * The text of the entry modules, by file name. All must be written to one folder.
 * @param root folder of sconce's sources
 */
export function entryModules(contents: Contents | CommandLineContents, root: string): Readonly<Record<string, string>> {
  const source = (path: string) => JSON.stringify(join(root, "src", path));
  const imports: string[] = [];
  /** Embeds a file. @returns an expression for the file's path inside the executable */
  const inside = (path: string) => {
    imports.push(`import file${imports.length} from ${JSON.stringify(path)} with { type: "file" };`);
    return `file${imports.length - 1}`;
  };
  const { torch, libraries, pixels } = contents;
  const main = [
    `torch: ${JSON.stringify(torch)}`,
    `pixels: ${inside(pixels)}`,
    libraries === "beside"
      ? `libraries: "beside"`
      : `libraries: { ...${JSON.stringify({ ...libraries, path: undefined })}, path: ${inside(libraries.path)} }`,
  ];
  if ("sources" in contents) {
    const { path, digest } = contents.sources;
    main.push(`sources: { path: ${inside(path)}, digest: ${JSON.stringify(digest)} }`);
  } else if (contents.model === "beside") main.push(`model: "beside"`);
  else {
    const { layers, ...model } = contents.model;
    const placed = Object.entries(layers).map(([title, path]) => `${JSON.stringify(title)}: ${inside(path)}`);
    main.push(`model: { ...${JSON.stringify(model)}, layers: { ${placed.join(", ")} } }`);
  }
  return {
    "main.ts": `${imports.join("\n")}
import { main } from ${source("sources" in contents ? "cli/executable/command-line.ts" : "cli/executable/main.ts")};
await main({ ${main.join(", ")} }, process.argv.slice(2));
`,
    ...Object.fromEntries(Object.entries(workers).map(([name, path]) => [name, `import ${source(path)};\n`])),
  };
}
