/** Defines a command. citty parses its arguments; this file refuses what citty lets pass, and reads `SCONCE_…` variables. */
import { parseArgs as parseTokens } from "node:util";
import { type ArgsDef, type CommandContext, type CommandDef, parseArgs } from "citty";
import { closest } from "../../base/closest.ts";
import { SconceError } from "../../base/errors.ts";
import type { Option, OptionTable, OptionValues, Positional } from "../../base/option.ts";
import { commonOptions } from "../../server/config.ts";

/** Help texts of a command; each option has its own. */
export interface HelpTexts {
  /** Paragraphs, separated by empty lines. */
  readonly details?: string;
  /** Example calls, one per line. */
  readonly example?: string;
  /** Group headings, by the key of the first option in each group. */
  readonly groups?: Readonly<Record<string, string>>;
}

export interface CommandOptions<O extends OptionTable> extends HelpTexts {
  readonly options: O;
  readonly positionals?: readonly Positional[];
  /** Options of earlier versions with their replacements; messages name the replacement. */
  readonly replaced?: Readonly<Record<string, string>>;
  run(parsed: Parsed<O & typeof commonOptions>): Promise<void>;
}

export interface Parsed<O extends OptionTable> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
}

export interface Command extends HelpTexts, CommandDef {
  readonly options: OptionTable;
  readonly positionals: readonly Positional[];
  run(context: CommandContext): Promise<void>;
}

/** A command in the list of a program. `load` is called only to run the command or to show its help. */
export interface ListedCommand {
  readonly description: string;
  load(): Promise<Command>;
}

export type Commands = Readonly<Record<string, ListedCommand>>;

export function command<O extends OptionTable>(declared: CommandOptions<O>): Command {
  const { positionals = [], replaced, run, ...help } = declared;
  const options = { ...declared.options, ...commonOptions };
  return {
    ...help,
    options,
    positionals,
    args: cittyArgs(options),
    run: (context) => run(checkArguments(context, options, { positionals, replaced })),
  };
}

/** Converts `batchSize` to `batch-size`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Converts `batchSize` to `SCONCE_BATCH_SIZE`. */
export function variableName(key: string, option?: Option<unknown>): string {
  return option?.variable ?? `SCONCE_${flagName(key).toUpperCase().replaceAll("-", "_")}`;
}

/** Whether the option is a switch without a value. */
export function isSwitch(option: Option<unknown>): boolean {
  return typeof option.default === "boolean";
}

/** Arguments that citty passes to a command. */
export interface CittyArguments {
  readonly args: Readonly<Record<string, unknown>> & { readonly _: readonly string[] };
  readonly rawArgs: readonly string[];
}

/** Without defaults: citty does not distinguish a default from a given value. */
function cittyArgs(table: OptionTable): ArgsDef {
  const entries = Object.entries(table).map(([key, option]) => [
    flagName(key),
    { type: isSwitch(option) ? "boolean" : "string", ...(option.alias === undefined ? {} : { alias: option.alias }) },
  ]);
  return Object.fromEntries(entries);
}

interface CheckOptions {
  readonly positionals?: readonly Positional[];
  readonly replaced?: Readonly<Record<string, string>> | undefined;
}

/** @throws SconceError `usage` with the given text and the allowed values */
export function checkArguments<O extends OptionTable>(
  { args, rawArgs }: CittyArguments,
  table: O,
  { positionals = [], replaced = {} }: CheckOptions = {},
): Parsed<O> {
  const known = new Map<string, Option<unknown>>();
  for (const [key, option] of Object.entries(table))
    for (const name of [key, flagName(key), option.alias ?? key]) known.set(name, option);
  for (const [name, value] of Object.entries(args)) {
    const option = known.get(name);
    // citty accepts unknown options, and `--no-` before options with a value.
    if (name === "_" || (option !== undefined && (value !== false || isSwitch(option)))) continue;
    const given = `${name.length === 1 ? "-" : "--"}${value === false ? "no-" : ""}${name}`;
    const replacement = Object.hasOwn(replaced, name) ? replaced[name] : undefined;
    if (replacement !== undefined) refuse(`there is no option ${given}; use ${replacement}`);
    const near = closest(given.replace(/^-+/, ""), Object.keys(table).map(flagName));
    refuse(`unknown option ${given}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
  }
  const missing = positionals[args._.length];
  if (missing?.required) refuse(`missing argument ${positionalName(missing)} (see --help)`);
  if (args._.length > positionals.length && !positionals.at(-1)?.isVariadic) {
    refuse(`unexpected argument ${JSON.stringify(args._[positionals.length])} (see --help)`);
  }
  return { options: readOptions({ args, rawArgs }, table), positionals: args._ };
}

/** How help and messages name a positional: `MODEL`, `REF…`. */
export function positionalName({ name, isVariadic }: Positional): string {
  return `${name.toUpperCase()}${isVariadic ? "…" : ""}`;
}

/** Reads some options and ignores all faults of the call; a faulty option gets its default. */
export function peekOptions<O extends OptionTable>(rawArgs: readonly string[], table: O): OptionValues<O> {
  return readOptions({ args: parseArgs([...rawArgs], cittyArgs(table)), rawArgs }, table, () => {});
}

/** Precedence: flags, then `SCONCE_…` variables, then defaults. */
function readOptions<O extends OptionTable>(
  given: CittyArguments,
  table: O,
  onFault: (message: string) => void = refuse,
): OptionValues<O> {
  const values = Object.entries(table).map(([key, option]) => {
    const flag = flagText(given, flagName(key), option);
    const variable = [variableName(key, option), option.otherVariable].find((name) => name && process.env[name]);
    const text = flag ?? (variable && process.env[variable]);
    if (text === undefined) return [key, option.default];
    const { success, data, error } = option.parse.safeParse(text);
    if (success) return [key, data];
    const name = flag === undefined ? variable : `--${flagName(key)}`;
    const shown = option.isSecret ? `a text of ${text.length} characters` : JSON.stringify(text);
    onFault(`${name} ${error.issues[0]?.message ?? "is malformed"}, not ${shown}`);
    return [key, option.default];
  });
  // Each key of the table was parsed by the schema of its option.
  return Object.fromEntries(values) as OptionValues<O>;
}

/** citty takes any value of a switch for true, and keeps only the last value of a list. */
function flagText({ args, rawArgs }: CittyArguments, name: string, option: Option<unknown>): string | undefined {
  if (option.isList) {
    const short = option.alias === undefined ? {} : { short: option.alias };
    const options = { [name]: { type: "string", multiple: true, ...short } } as const;
    const { values } = parseTokens({ args: [...rawArgs], strict: false, allowPositionals: true, options });
    return values[name] === undefined ? undefined : [values[name]].flat().join("\n");
  }
  const value = isSwitch(option) ? rawArgs.findLast((arg) => arg.startsWith(`--${name}=`)) : undefined;
  return value?.slice(`--${name}=`.length) ?? (args[name] === undefined ? undefined : String(args[name]));
}

function refuse(message: string): never {
  throw usage(message);
}

/** The error of a wrong call. */
export function usage(message: string): SconceError {
  return new SconceError("usage", message);
}
