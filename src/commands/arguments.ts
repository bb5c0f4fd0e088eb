/** From a command line to checked values: the option tables say what there is and what it may be. */
import { parseArgs } from "node:util";
import type { ArgsDef } from "citty";
import { closest } from "../closest.ts";
import { SconceError } from "../errors.ts";
import type { Option, OptionTable, OptionValues } from "../option.ts";

export interface Positional {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** Takes all that follow; the last of a command's positionals. */
  readonly isVariadic?: boolean;
}

export interface Parsed<O extends OptionTable> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
}

/** `batchSize` as `batch-size`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `batchSize` as `SCONCE_BATCH_SIZE`. */
export function variableName(key: string, option?: Option<unknown>): string {
  return option?.variable ?? `SCONCE_${flagName(key).toUpperCase().replaceAll("-", "_")}`;
}

/** Whether the option is a switch, which takes no value. */
export function isSwitch(option: Pick<Option<unknown>, "default">): boolean {
  return typeof option.default === "boolean";
}

/** What help says of an option's default; undefined when it has none. */
export function defaultOf(option: Option<unknown>): string | undefined {
  if (option.described !== undefined) return option.described;
  if (option.isList) return "none";
  if (option.default === undefined) return undefined;
  if (isSwitch(option)) return option.default ? "on" : "off";
  return String(option.default);
}

/** A table as citty takes it; what is required is checked here, so that all faults are told alike. */
export function toArgs(table: OptionTable, positionals: readonly Positional[] = []): ArgsDef {
  const args: ArgsDef = {};
  for (const { name, description } of positionals) args[name] = { type: "positional", description, required: false };
  for (const [key, option] of Object.entries(table)) {
    const { description, alias, valueHint } = option;
    args[flagName(key)] = {
      type: isSwitch(option) ? "boolean" : "string",
      description,
      ...(alias === undefined ? {} : { alias }),
      ...(valueHint === undefined || isSwitch(option) ? {} : { valueHint }),
    };
  }
  return args;
}

/**
 * Reads flags, then `SCONCE_…` variables, then defaults.
 * @throws SconceError `usage` that says what was given and what is allowed
 */
export function parseArguments<O extends OptionTable>(
  rawArgs: readonly string[],
  table: O,
  positionals: readonly Positional[] = [],
): Parsed<O> {
  const given = split(rawArgs, table);
  if (given.unknown !== undefined) throw unknownOption(given.unknown, table);
  checkPositionals(given.positionals, positionals);
  const options = Object.fromEntries(
    Object.entries(table).map(([key, option]) => {
      const text = given.texts.get(key);
      if (text !== undefined) return [key, read(option, text, `--${flagName(key)}`)];
      const variable = variableName(key, option);
      const value = process.env[variable];
      return [key, value === undefined || value === "" ? option.default : read(option, value, variable)];
    }),
  );
  // Every key of the table was read by its own schema.
  return { options: options as OptionValues<O>, positionals: given.positionals };
}

/** Reads some options as far as they can be read, whatever else is wrong with the call; defaults for the rest. */
export function peekOptions<O extends OptionTable>(rawArgs: readonly string[], table: O): OptionValues<O> {
  const { texts } = split(rawArgs, table);
  const options = Object.fromEntries(
    Object.entries(table).map(([key, option]) => {
      const parsed = option.parse.safeParse(texts.get(key) ?? process.env[variableName(key, option)]);
      return [key, parsed.success ? parsed.data : option.default];
    }),
  );
  // As above.
  return options as OptionValues<O>;
}

interface Split {
  /** By key of the table; of a list, a line each, else the last one. */
  readonly texts: ReadonlyMap<string, string>;
  readonly positionals: readonly string[];
  /** The first option that is not in the table, as it was typed. */
  readonly unknown: string | undefined;
}

/** With the parser that citty uses, whose own result has only the last of a list and any value of a switch as true. */
function split(rawArgs: readonly string[], table: OptionTable): Split {
  const keys = new Map(Object.keys(table).flatMap((key) => [flagName(key), key].map((name) => [name, key] as const)));
  const { tokens } = parseArgs({
    args: [...rawArgs],
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      [...keys].map(([name, key]) => {
        const { alias, ...option } = table[key] ?? { default: undefined };
        const short = name === flagName(key) ? alias : undefined;
        return [name, { type: isSwitch(option) ? "boolean" : "string", ...(short === undefined ? {} : { short }) }];
      }),
    ),
  });
  const texts = new Map<string, string>();
  const positionals: string[] = [];
  let unknown: string | undefined;
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const negated = token.name.startsWith("no-") ? keys.get(token.name.slice("no-".length)) : undefined;
    const key = keys.get(token.name) ?? negated;
    const option = key === undefined ? undefined : table[key];
    if (key === undefined || option === undefined || (negated !== undefined && !isSwitch(option))) {
      unknown ??= token.rawName;
      continue;
    }
    const text = negated === undefined ? (token.value ?? "") : "false";
    const before = option.isList ? texts.get(key) : undefined;
    texts.set(key, before === undefined ? text : `${before}\n${text}`);
  }
  return { texts, positionals, unknown };
}

function read(option: Option<unknown>, given: string, name: string): unknown {
  const parsed = option.parse.safeParse(given);
  if (parsed.success) return parsed.data;
  throw usage(`${name} ${parsed.error.issues[0]?.message ?? "is malformed"}, not ${JSON.stringify(given)}`);
}

function checkPositionals(given: readonly string[], positionals: readonly Positional[]): void {
  if (given.length > positionals.length && !positionals.at(-1)?.isVariadic) {
    throw usage(`unexpected argument ${JSON.stringify(given[positionals.length])} (see --help)`);
  }
  const missing = positionals.slice(given.length).find(({ required }) => required);
  if (missing !== undefined) throw usage(`missing argument ${missing.name.toUpperCase()}: ${missing.description}`);
}

function unknownOption(given: string, table: OptionTable): SconceError {
  const near = closest(given.replace(/^-+/, ""), Object.keys(table).map(flagName));
  return usage(`unknown option ${given}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
}

function usage(message: string): SconceError {
  return new SconceError("usage", message);
}
