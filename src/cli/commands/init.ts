/** `sconce init DIR`: writes a model folder to start from. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { codeOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { filePath, openOption } from "../../base/option.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { sourcesFolder } from "../../package/executable/sources.ts";
import { modelStore } from "../../package/model-source.ts";
import { type PlainOptions, writePlainModel } from "../build/plain/plain-model.ts";
import { fixedBatchText, inputOption, isFile } from "../build/plain/tensor-input.ts";
import { command, usage } from "../command-line/command.ts";
import { linkTypes, typesConfig } from "./init/types-link.ts";

const templateName = "colours";

export const init = command({
  details: `The folder must be new or empty. Its name becomes the name of the model. The sample model names colours. The comments in model.ts explain what to change for your model. export.py writes the weights. --from writes a model.ts for existing weights, with their tensors filled in.

tsconfig.json finds the types of sconce in .sconce/types, a link to this installation of sconce. Git ignores the link. In a fresh clone, sconce check restores the link. If sconce is installed in the folder, the types come from node_modules/sconce.`,
  example: `sconce init flowers
sconce build flowers
sconce init digits --from digits.pt2`,
  options: {
    from: openOption<string>({
      description: "Existing weights: an exported program, an AOTInductor package or TorchScript",
      described: "the sample model",
      ...filePath,
    }),
    input: inputOption,
  },
  positionals: [{ name: "dir", description: "The folder to write", required: true }],
  async run({ options, positionals: [given = ""] }) {
    if (given === "") throw usage("DIR must be a folder, not an empty text");
    const dir = resolve(given);
    if (options.from !== undefined && !isFile(options.from)) {
      throw usage(`--from: there is no ${options.from}`);
    }
    const name = nameFrom(dir);
    await checkEmpty(dir, given);
    if (options.from === undefined && options.input.length > 0)
      throw usage("--input is for a weights file: name it with --from");
    const files =
      options.from === undefined
        ? await writeSample(dir, name)
        : await writeModelOf(options.from, dir, { name, inputs: options.input, batchSize: undefined });
    await linkTypes(dir);
    const isSample = options.from === undefined;
    const then = `\n\nThen change model.ts and export.py into your model.`;
    console.log(`Wrote ${given}: ${files.join(", ")}

Next:

  ${programName} build ${quoted(given)}
  ${programName} predict ${name} ${isSample ? "colour=#ff8800" : "--example"}
  ${programName} serve ${name}${isSample ? then : ""}`);
  },
});

/** Writes the sample model. @returns the names of the files */
async function writeSample(dir: string, name: string): Promise<readonly string[]> {
  const files = await filesOf(dir, name);
  await mkdir(dir, { recursive: true });
  // `wx` fails for a file that was created meanwhile, and so never overwrites it.
  for (const [file, content] of files) await writeFile(join(dir, file), content, { flag: "wx" });
  return files.map(([file]) => file);
}

/**
 * Writes a model folder for a weights file.
 * @returns the names of the files
 */
async function writeModelOf(
  weights: string,
  dir: string,
  options: Omit<PlainOptions, "isKept">,
): Promise<readonly string[]> {
  await modelStore.prepareLibraries();
  const { files, fixedRows } = await writePlainModel(resolve(weights), dir, { ...options, isKept: true });
  const isChosen = options.inputs.length > 0;
  if (fixedRows !== undefined) log.warn(fixedBatchText({ file: basename(weights), rows: fixedRows, isChosen }));
  await writeFile(join(dir, "tsconfig.json"), await typesConfig(dir), { flag: "wx" });
  await writeFile(join(dir, ".gitignore"), await ofTemplate("gitignore"), { flag: "wx" });
  return [...files, "tsconfig.json", ".gitignore"];
}

export function nameFrom(dir: string): string {
  const name = basename(dir)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
  return name === "" ? templateName : name;
}

/**
 * Files that a folder may contain and still count as empty: of a new Git repository, or of a package that only
 * installed sconce.
 */
const asGoodAsEmpty = new Set([".git", "package.json", "bun.lock", "node_modules"]);

async function checkEmpty(dir: string, given: string): Promise<void> {
  try {
    const found = (await readdir(dir)).filter((name) => !asGoodAsEmpty.has(name));
    if (found.length === 0) return;
    const shown = found.slice(0, 3).join(", ") + (found.length > 3 ? ", …" : "");
    throw usage(`${given} must be a new or empty folder; it contains ${shown}`);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return;
    if (code === "ENOTDIR") throw new SconceError("usage", `${given} must be a folder, not a file`, { cause: error });
    throw error;
  }
}

async function filesOf(dir: string, name: string): Promise<readonly (readonly [string, string | Uint8Array])[]> {
  const named = async (file: string) => (await ofTemplate(file)).toString().replaceAll(namePattern, name);
  return [
    ["model.ts", await named("model.ts")],
    ["model.pt2", await ofTemplate("model.pt2")],
    ["export.py", await ofTemplate("export.py")],
    ["README.md", await named("README.md")],
    ["tsconfig.json", await typesConfig(dir)],
    [".gitignore", await ofTemplate("gitignore")],
  ];
}

async function ofTemplate(file: string): Promise<Buffer> {
  return readFile(join(await sourcesFolder(), "src/cli/commands/init/template", file));
}

/** Matches the model's name in the template's files, but not the word "colours" in prose. */
const namePattern = new RegExp(`(?<=^# |name: "|sconce (?:predict|serve) )${templateName}\\b`, "gm");

function quoted(path: string): string {
  return /^[\w./~+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
