/** The modules that an executable starts with: they import its files, and hand them to the program. */
import { fileURLToPath } from "node:url";
import type { Contents } from "./contents.ts";

/** A worker is found by its place relative to the program, which in an executable is all one file: each is an entry of its own. */
const workers = {
  "large-body-worker.ts": "../inputs/large-body-worker.ts",
  "sqlite-worker.ts": "../predictions/sqlite/sqlite-worker.ts",
} as const;

/** By the names that they must have in one folder. */
export function entryModules(contents: Contents): Readonly<Record<string, string>> {
  const imports: string[] = [];
  /** An expression that is the file's path inside the executable. */
  const inside = (path: string) => {
    imports.push(`import file${imports.length} from ${JSON.stringify(path)} with { type: "file" };`);
    return `file${imports.length - 1}`;
  };
  const { torch, libraries, model } = contents;
  const main = [
    `torch: ${JSON.stringify(torch)}`,
    libraries === "beside"
      ? `libraries: "beside"`
      : `libraries: { ...${JSON.stringify({ ...libraries, path: undefined })}, path: ${inside(libraries.path)} }`,
    model === "beside"
      ? `model: "beside"`
      : `model: { ...${JSON.stringify({ ...model, layers: undefined })}, layers: { ${Object.entries(model.layers)
          .map(([title, path]) => `${JSON.stringify(title)}: ${inside(path)}`)
          .join(", ")} } }`,
  ];
  return {
    "main.ts": `${imports.join("\n")}
import { main } from ${JSON.stringify(source("../executable/main.ts"))};
await main({ ${main.join(", ")} }, process.argv.slice(2));
`,
    ...Object.fromEntries(
      Object.entries(workers).map(([name, path]) => [name, `import ${JSON.stringify(source(path))};\n`]),
    ),
  };
}

function source(relative: string): string {
  return fileURLToPath(new URL(relative, import.meta.url));
}
