/** Handles files in an output, which are data URIs. `-o` saves them; in a terminal they are shortened. */
import { statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { decodeDataUrl } from "../../../author/data-url.ts";
import { formatBytes } from "../../../base/bytes.ts";
import { usage } from "../../command-line/command.ts";

const standardOutput = "-";

export interface OutputFile {
  /** Path in the JSON of the output: `image`, `faces.0.crop`. */
  readonly name: string;
  readonly dataUri: string;
}

interface Target {
  /** Path of the file in the output's JSON, from `-o NAME=FILE`. Undefined in `-o FILE`, for an output with one file. */
  readonly name: string | undefined;
  readonly path: string;
}

export class OutputTargets {
  readonly #targets: readonly Target[];

  /**
   * Checks the values of `-o` before the model runs.
   * @param given values `FILE` or `field=FILE`
   * @throws SconceError `usage` for a missing folder, or several values of which one names no field
   */
  constructor(given: readonly string[]) {
    this.#targets = given.map(parseTarget);
    if (this.#targets.length > 1 && this.#targets.some(({ name }) => name === undefined)) {
      throw usage("with several -o, each must name a file of the output: -o field=FILE");
    }
    for (const { path } of this.#targets) checkPath(path);
  }

  get isStandardOutput(): boolean {
    return this.#targets.some(({ path }) => path === standardOutput);
  }

  /**
   * Writes the requested files.
   * @returns the output, with paths in place of the saved files
   * @throws SconceError `usage` when a name matches no file or several
   */
  async save(output: unknown): Promise<unknown> {
    const files = filesOf(output);
    const saved = new Map<string, string>();
    for (const target of this.#targets) {
      const { name, dataUri } = select(target, files);
      const { bytes } = decodeDataUrl(dataUri, Number.MAX_SAFE_INTEGER);
      await (target.path === standardOutput ? Bun.write(Bun.stdout, bytes) : writeFile(target.path, bytes));
      saved.set(name, target.path);
    }
    return mapFiles(output, ({ name, dataUri }) => saved.get(name) ?? dataUri);
  }
}

/** Shortens the data URIs in an output. `names` lists the shortened files. */
export function shorten(output: unknown): { readonly output: unknown; readonly names: readonly string[] } {
  const names: string[] = [];
  const shortened = mapFiles(output, ({ name, dataUri }) => {
    if (dataUri.length <= 100) return dataUri;
    names.push(name);
    const size = formatBytes(decodeDataUrl(dataUri, Number.MAX_SAFE_INTEGER).bytes.length);
    return `${dataUri.slice(0, 40)}… (${size})`;
  });
  return { output: shortened, names };
}

function filesOf(output: unknown): readonly OutputFile[] {
  const files: OutputFile[] = [];
  mapFiles(output, (file) => {
    files.push(file);
    return "";
  });
  return files;
}

/** Copies a value and replaces each data URI in it. */
function mapFiles(value: unknown, replace: (file: OutputFile) => string, name = ""): unknown {
  const below = (key: string | number) => (name === "" ? String(key) : `${name}.${key}`);
  if (typeof value === "string") {
    return /^data:[\w.+-]+\/[\w.+-]+(;[^,]{0,200})?,/i.test(value) ? replace({ name, dataUri: value }) : value;
  }
  if (Array.isArray(value)) return value.map((one, i) => mapFiles(one, replace, below(i)));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapFiles(one, replace, below(key))]));
}

/** Parses a value of `-o`. The text before the first "=" is a field name, unless it contains a slash. */
function parseTarget(given: string): Target {
  const [, name, path] = /^([^=/]+)=(.*)$/s.exec(given) ?? [undefined, undefined, given];
  if (!path) throw usage(`-o must be FILE or field=FILE, not ${JSON.stringify(given)}`);
  return { name, path };
}

/** Finds the file that a value of `-o` names. */
function select({ name }: Target, all: readonly OutputFile[]): OutputFile {
  // The last fields of a file's path are enough, such as `crop` for `faces.0.crop`. An exact match takes precedence.
  const fitting = all.filter((file) => name === undefined || `.${file.name}`.endsWith(`.${name}`));
  const found = fitting.find((file) => file.name === name);
  const names = all.map((file) => file.name).join(", ");
  const [first, ...others] = found === undefined ? fitting : [found];
  if (first === undefined) {
    const what = name === undefined ? "file to save" : `file ${name}`;
    const fix = names === "" ? "; values that are not files are printed as JSON" : `; its files: ${names}`;
    throw usage(`the output has no ${what}${fix}`);
  }
  if (others.length > 0) {
    throw usage(`the output has several files (${names}); say which one with -o ${first.name}=FILE`);
  }
  return first;
}

function checkPath(path: string): void {
  if (path === standardOutput) {
    if (process.stdout.isTTY) throw usage("a file is not written to a terminal; give -o the name of a file");
    return;
  }
  const isFolder = (candidate: string) => statSync(candidate, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (isFolder(path)) throw usage(`-o must be a file, and ${path} is a folder`);
  if (!isFolder(dirname(path))) throw usage(`${path} can't be written: there is no folder ${dirname(path)}`);
}
