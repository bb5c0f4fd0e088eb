/** Generates the entry modules of an executable, which import the embedded files and start the program. */
import { join } from "node:path";
import type { CommandLineContents, Contents } from "./contents.ts";

/**
 * Workers. An executable bundles the program into a single file, so a worker needs an entry module to be found by path.
 */
const workers = {
  "deadline-worker.ts": "machine/processes/deadline-worker.ts",
  "large-body-worker.ts": "server/inputs/large-body-worker.ts",
  "live-worker.ts": "server/http/live-worker.ts",
  "sqlite-worker.ts": "server/predictions/sqlite/sqlite-worker.ts",
} as const;

/**
 * Entry modules by file name; all must be in one folder.
 * @param root of the sources
 */
export function entryModules(contents: Contents | CommandLineContents, root: string): Readonly<Record<string, string>> {
  const source = (path: string) => JSON.stringify(join(root, "src", path));
  const imports: string[] = [];
  /** Imports a file and returns an expression for its path inside the executable. */
  const inside = (path: string) => {
    imports.push(`import file${imports.length} from ${JSON.stringify(path)} with { type: "file" };`);
    return `file${imports.length - 1}`;
  };
  const { torch, libraries } = contents;
  const main = [
    `torch: ${JSON.stringify(torch)}`,
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
