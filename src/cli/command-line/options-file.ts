/** A TOML file with the options of a command, each under the long name of its flag. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { closest } from "../../base/closest.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { Option } from "../../base/option.ts";
import { pathGiven } from "./model-path.ts";

export interface FileUse {
  /** Name of the file that is read from the working directory if --config is not given. */
  readonly name: string;
  /**
   * Key of an array of positional arguments in the file. If an option has the same name, a string is the option's
   * value.
   */
  readonly positionals: string;
}

interface Entry {
  /** The value as text on a command line; undefined for a value of a wrong type, and for positional arguments. */
  readonly text: string | undefined;
  /** File and line of the value: `sconce.toml:3`. */
  readonly origin: string;
}

export class OptionsFile {
  readonly path: string;
  /** Messages about syntax errors, unknown names and wrong types, each with its line. */
  readonly faults: readonly string[];
  readonly positionals: readonly string[];
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(path: string, content: string, options: ReadonlyMap<string, Option<unknown>>, use: FileUse) {
    const entries = new Map<string, Entry>();
    const faults: string[] = [];
    let positionals: readonly string[] = [];
    for (const [name, value] of Object.entries(parsed(content, path, faults))) {
      const origin = `${path}:${lineOf(name, content)}`;
      const option = options.get(name);
      if (name === use.positionals && (Array.isArray(value) || option === undefined)) {
        const given = textsOf(value);
        if (given === undefined) faults.push(`${origin}: ${name} must be an array of texts in quotes`);
        else positionals = given.map((each) => pathGiven(each, dirname(path)) ?? each);
        entries.set(name, { text: undefined, origin });
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
   * Opens the file that --config names, or the default file in the working directory.
   * @param given the value of --config
   * @param options options by their names in the file
   * @returns undefined if --config is not given and the default file does not exist
   * @throws SconceError `usage` for a file that cannot be read
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

  /** The value of an option; undefined if the file does not have the option. */
  find(name: string): Entry | undefined {
    return this.#entries.get(name);
  }
}

/** Parses TOML. After a syntax error, adds a message to `faults` and returns no options. */
function parsed(content: string, path: string, faults: string[]): object {
  try {
    return Bun.TOML.parse(content);
  } catch (error) {
    faults.push(`${path}: ${messageOf(error)}`);
    return {};
  }
}

/** The line number of a name at the top level of the file. */
function lineOf(name: string, content: string): number {
  const lines = content.split("\n");
  const index = lines.findIndex((line) => /^\s*\[*\s*["']?([\w-]+)["']?\s*[\].=]/.exec(line)?.[1] === name);
  return index < 0 ? 1 : index + 1;
}

/** Converts a TOML value to text as on a command line. For a wrong type, returns only the name of the expected type. */
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
  if (fileForm === "address") return { expected: 'a number, or a text such as "0.0.0.0:9000"', ...number, ...text };
  const texts = textsOf(value);
  if (isList || fileForm === "words") {
    const joined = texts === undefined ? {} : { text: texts.join(isList ? "\n" : ",") };
    return { expected: "an array of texts in quotes", ...joined };
  }
  return { expected: "a text in quotes", ...text };
}

/** The strings of an array, or one string as an array; undefined for other values and for strings with a line break. */
function textsOf(value: unknown): readonly string[] | undefined {
  const values = [value].flat();
  return values.every((each) => typeof each === "string" && !each.includes("\n")) ? values.map(String) : undefined;
}
