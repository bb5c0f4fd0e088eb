/** A TOML file with the options of a command, each under its long name. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { closest } from "../../base/closest.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { Option } from "../../base/option.ts";

/** How a command uses an options file. */
export interface FileUse {
  /** Without --config, the command reads a file of this name in the working directory. */
  readonly name: string;
  /** Name in the file for an array of the arguments without an option. An option may have the same name, for a text. */
  readonly positionals: string;
  /** Keys of options that a file cannot have. */
  readonly excluded: readonly string[];
}

interface Entry {
  /** As the command line has it; undefined for a faulty value. */
  readonly text: string | undefined;
  /** `sconce.toml:3`. */
  readonly origin: string;
}

export class OptionsFile {
  readonly path: string;
  /** Unknown names and wrong types, each with its line. */
  readonly faults: readonly string[];
  /** Arguments without an option. */
  readonly positionals: readonly string[];
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(path: string, content: string, options: ReadonlyMap<string, Option<unknown>>, use: FileUse) {
    const entries = new Map<string, Entry>();
    const faults: string[] = [];
    let positionals: readonly string[] = [];
    for (const [name, value] of Object.entries(parsed(content, path))) {
      const origin = `${path}:${lineOf(name, content)}`;
      const option = options.get(name);
      if (name === use.positionals && (Array.isArray(value) || option === undefined)) {
        const given = textsOf(value);
        if (given === undefined) faults.push(`${origin}: ${name} must be an array of texts in quotes`);
        else positionals = given.map((each) => pathIn(dirname(path), each));
      } else if (option === undefined) {
        const near = closest(name, [...options.keys(), use.positionals]);
        faults.push(`${origin}: unknown option ${name}${near === undefined ? "" : `; did you mean ${near}?`}`);
      } else {
        const { text, expected } = textOf(value, option);
        const type = Array.isArray(value) ? "an array" : `a ${typeof value === "string" ? "text" : typeof value}`;
        if (text === undefined) faults.push(`${origin}: ${name} must be ${expected}, not ${type}`);
        const isPath = option.isPath && text !== undefined && !option.valueHint?.split("|").includes(text);
        entries.set(name, { text: isPath ? resolve(dirname(path), text) : text, origin });
      }
    }
    this.path = path;
    this.faults = faults;
    this.positionals = positionals;
    this.#entries = entries;
  }

  /**
   * @param given the value of --config
   * @param options by their names in the file
   * @returns undefined without --config, if the working directory has no such file
   * @throws SconceError `usage` for a file that cannot be read or is no TOML
   */
  static open(
    given: string | undefined,
    options: ReadonlyMap<string, Option<unknown>>,
    use: FileUse,
  ): OptionsFile | undefined {
    if (given === undefined && !existsSync(use.name)) return undefined;
    const path = given ?? use.name;
    let content: string;
    try {
      content = readFileSync(path, "utf8");
    } catch (error) {
      throw new SconceError("usage", `the options file cannot be read: ${messageOf(error)}`);
    }
    return new OptionsFile(path, content, options, use);
  }

  /** @returns undefined for an option that the file does not have */
  find(name: string): Entry | undefined {
    return this.#entries.get(name);
  }
}

function parsed(content: string, path: string): object {
  try {
    return Bun.TOML.parse(content);
  } catch (error) {
    throw new SconceError("usage", `${path}:${faultLine(content, messageOf(error))}: ${messageOf(error)}`);
  }
}

/** Bun's errors have no line: the first lines that fail with the same message end with it. */
function faultLine(content: string, message: string): number {
  const lines = content.split("\n");
  for (let count = 1; count < lines.length; count++) {
    try {
      Bun.TOML.parse(lines.slice(0, count).join("\n"));
    } catch (error) {
      if (messageOf(error) === message) return count;
    }
  }
  return lines.length;
}

/** A path to a file of the folder is made absolute; a name of a model stays. */
function pathIn(folder: string, given: string): string {
  return /[./]/.test(given) && existsSync(resolve(folder, given)) ? resolve(folder, given) : given;
}

/** Line of a name at the top level. */
function lineOf(name: string, content: string): number {
  const lines = content.split("\n");
  const index = lines.findIndex((line) => /^\s*\[*\s*["']?([\w-]+)["']?\s*[\].=]/.exec(line)?.[1] === name);
  return index < 0 ? 1 : index + 1;
}

/** The value as the command line has it, or the expected type. */
function textOf(
  value: unknown,
  { default: initial, isList, fileForm }: Option<unknown>,
): { readonly text?: string; readonly expected: string } {
  const number = typeof value === "number" || typeof value === "bigint" ? { text: String(value) } : {};
  const text = typeof value === "string" ? { text: value } : {};
  if (typeof initial === "boolean")
    return { expected: "true or false", ...(typeof value === "boolean" ? { text: String(value) } : {}) };
  if (fileForm === "number") return { expected: "a number without quotes", ...number };
  if (fileForm === "bytes") return { expected: 'a number, or a text such as "64m"', ...number, ...text };
  const texts = textsOf(value);
  if (isList || fileForm === "words") {
    const joined = texts === undefined ? {} : { text: texts.join(isList ? "\n" : ",") };
    return { expected: "an array of texts in quotes", ...joined };
  }
  return { expected: "a text in quotes", ...text };
}

/** An array of texts; a single text is an array of one. */
function textsOf(value: unknown): readonly string[] | undefined {
  const values = [value].flat();
  return values.every((each) => typeof each === "string" && !each.includes("\n")) ? values.map(String) : undefined;
}
