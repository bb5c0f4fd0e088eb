/**
 * Defines a command. citty parses its arguments. This file refuses wrong arguments that citty accepts, and reads
 * `SCONCE_…` variables and options files.
 */
import { parseArgs as parseTokens } from "node:util";
import { type ArgsDef, type CommandContext, type CommandDef, parseArgs } from "citty";
import { closest } from "../../base/closest.ts";
import { SconceError } from "../../base/errors.ts";
import { configureLog, log } from "../../base/log.ts";
import {
  filePath,
  type Option,
  type OptionTable,
  type OptionValues,
  openOption,
  type Positional,
} from "../../base/option.ts";
import { commonOptions } from "../../server/config.ts";
import { type FileUse, OptionsFile } from "./options-file.ts";

export interface HelpTexts {
  /** Explanation below the usage line: paragraphs, separated by empty lines. */
  readonly details?: string;
  /** Example calls, one per line. */
  readonly example?: string;
  /** Headings of groups of options, by the key of the first option in each group. */
  readonly groups?: Readonly<Record<string, string>>;
}

export interface CommandOptions<O extends OptionTable> extends HelpTexts {
  readonly options: O;
  readonly positionals?: readonly Positional[];
  /** Whether the command runs for long, so that its log lines show the time. */
  readonly isServer?: boolean;
  /** Set for a command that reads options from a file; it gets the option --config. */
  readonly file?: FileUse;
  run(parsed: Parsed<O & typeof commonOptions>): Promise<void>;
}

export interface Parsed<O extends OptionTable> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
}

export interface Command extends HelpTexts, CommandDef {
  readonly options: OptionTable;
  readonly positionals: readonly Positional[];
  readonly file?: FileUse | undefined;
  readonly isServer?: boolean;
  run(context: CommandContext): Promise<void>;
}

/**
 * A command in a program's list. `load` imports its module, so that a program starts without the modules of all
 * commands.
 */
export interface ListedCommand {
  readonly description: string;
  load(): Promise<Command>;
}

export type Commands = Readonly<Record<string, ListedCommand>>;

export function command<O extends OptionTable>(declared: CommandOptions<O>): Command {
  const { positionals = [], run, file, isServer = false, ...help } = declared;
  const options = { ...(file && configOptions), ...declared.options, ...commonOptions };
  return {
    ...help,
    options,
    positionals,
    file,
    args: cittyArgs(options),
    isServer,
    run: async (context) => run(checkArguments(context, options, { positionals, file })),
  };
}

const configOptions = {
  config: openOption<string>({
    description:
      "TOML file with options under their long names. Command-line options and environment variables take precedence",
    described: "sconce.toml in this folder, if it exists",
    ...filePath,
  }),
} as const;

/** Converts an option's key to its flag: `batchSize` to `batch-size`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The environment variable of an option: `SCONCE_BATCH_SIZE` for `batchSize`, unless the option names another. */
export function variableName(key: string, option?: Option<unknown>): string {
  return option?.variable ?? `SCONCE_${flagName(key).toUpperCase().replaceAll("-", "_")}`;
}

/** Whether the option is a switch, which takes no value. */
export function isSwitch(option: Option<unknown>): boolean {
  return typeof option.default === "boolean";
}

export interface CittyArguments {
  readonly args: Readonly<Record<string, unknown>> & { readonly _: readonly string[] };
  readonly rawArgs: readonly string[];
}

/**
 * Option definitions for citty. They have no defaults, because citty does not distinguish a default from a given value.
 */
function cittyArgs(table: OptionTable): ArgsDef {
  const entries = Object.entries(table).map(([key, option]) => [
    flagName(key),
    { type: isSwitch(option) ? "boolean" : "string", ...(option.alias === undefined ? {} : { alias: option.alias }) },
  ]);
  return Object.fromEntries(entries);
}

interface CheckOptions {
  readonly positionals?: readonly Positional[];
  readonly file?: FileUse | undefined;
}

/** Checks and parses the arguments of a command. @throws SconceError `usage` that names the wrong argument */
export function checkArguments<O extends OptionTable>(
  { args, rawArgs }: CittyArguments,
  table: O,
  { positionals = [], file: use }: CheckOptions = {},
): Parsed<O> {
  const known = new Map<string, Option<unknown>>();
  for (const [key, option] of Object.entries(table))
    for (const name of [key, flagName(key), option.alias ?? key]) known.set(name, option);
  for (const [name, value] of Object.entries(args)) {
    const option = known.get(name);
    // Skips correct options. citty accepts unknown options too, and `--no-` before options with a value.
    if (name === "_" || (option !== undefined && (value !== false || isSwitch(option)))) continue;
    const given = `${name.length === 1 ? "-" : "--"}${value === false ? "no-" : ""}${name}`;
    const near = closest(given.replace(/^-+/, ""), Object.keys(table).map(flagName));
    refuse(`unknown option ${given}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
  }
  const { config } = use === undefined ? {} : readOptions({ args, rawArgs }, configOptions);
  const file = use && openFile(config, table, use);
  const [fault, ...others] = file?.faults ?? [];
  if (fault !== undefined)
    refuse(others.length === 0 ? fault : `${fault} (and ${others.length} more: see \`config check\`)`);
  const given = args._.length === 0 ? (file?.positionals ?? []) : args._;
  const missing = positionals[given.length];
  if (missing?.required) refuse(`missing argument ${positionalName(missing)} (see --help)`);
  if (given.length > positionals.length && !positionals.at(-1)?.isVariadic) {
    refuse(`unexpected argument ${JSON.stringify(given[positionals.length])} (see --help)`);
  }
  const options = readOptions({ args, rawArgs }, table, { file });
  if (file !== undefined) {
    const { logLevel: level, logFormat: format } = readOptions({ args, rawArgs }, commonOptions, { file });
    configureLog({ level, format });
    log.info(`Options are also read from ${file.path}`);
  }
  return { options, positionals: given };
}

/**
 * Opens the file of --config, or the default file; undefined without --config if the default file does not exist.
 * @throws SconceError `usage` for a file that cannot be read
 */
export function openFile(config: string | undefined, table: OptionTable, use: FileUse): OptionsFile | undefined {
  const options = Object.entries(table).filter(([key]) => !(key in configOptions));
  return OptionsFile.open(config, new Map(options.map(([key, option]) => [flagName(key), option])), use);
}

/** The name of a positional argument in help and messages: `MODEL`, or `REF…` for several. */
export function positionalName({ name, isVariadic }: Positional): string {
  return `${name.toUpperCase()}${isVariadic ? "…" : ""}`;
}

/**
 * Reads the options of `table` before the command checks its arguments. An option with a wrong value gets its default.
 */
export function peekOptions<O extends OptionTable>(rawArgs: readonly string[], table: O): OptionValues<O> {
  const given = { args: parseArgs([...rawArgs], cittyArgs(table)), rawArgs };
  return readOptions(given, table, { onFault: () => {} });
}

interface ReadOptions {
  readonly file?: OptionsFile | undefined;
  readonly onFault?: (message: string) => void;
}

function readOptions<O extends OptionTable>(given: CittyArguments, table: O, read: ReadOptions = {}): OptionValues<O> {
  const values = Object.entries(table).map(([key, option]) => [key, readOption(given, key, option, read)]);
  // Each key has a value that the schema of its option has parsed, so the cast is safe.
  return Object.fromEntries(values) as OptionValues<O>;
}

/** Faults of values in the file, and in environment variables that override them. */
export function valueFaults(table: OptionTable, file: OptionsFile): string[] {
  const faults: string[] = [];
  readOptions({ args: { _: [] }, rawArgs: [] }, table, { file, onFault: (fault) => faults.push(fault) });
  return faults;
}

/** Finds the value of an option: in flags first, then `SCONCE_…` variables, then the file, then the default. */
function readOption(
  given: CittyArguments,
  key: string,
  option: Option<unknown>,
  { file, onFault = refuse }: ReadOptions,
): unknown {
  const flag = flagText(given, flagName(key), option);
  const variable = [variableName(key, option), option.otherVariable].find((name) => name && isSet(process.env[name]));
  const entry = file?.find(flagName(key));
  const text = flag ?? (variable && process.env[variable]) ?? entry?.text;
  if (text === undefined) return option.default;
  const origin = flag !== undefined ? `--${flagName(key)}` : (variable ?? entry?.origin ?? "");
  const { success, data, error } = option.parse.safeParse(text);
  if (success) return data;
  const wrong = option.isList ? valueAt(text, error.issues[0]?.path[0]) : text;
  const shown = option.isSecret ? `a text of ${wrong.length} characters` : JSON.stringify(wrong);
  const name = origin === entry?.origin ? `${origin}: ${flagName(key)}` : origin;
  onFault(`${name} ${error.issues[0]?.message ?? "is malformed"}, not ${shown}`);
  return option.default;
}

/** The value at an index of a list option's text. */
function valueAt(text: string, index: PropertyKey | undefined): string {
  return text.split("\n")[Number(index)] ?? text;
}

/**
 * Whether a variable has a value for an option. Kubernetes sets SCONCE_PORT to `tcp://ADDRESS:PORT` in all pods if a
 * service has the name sconce.
 */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && !/^(?:tcp|udp|sctp):\/\//.test(value);
}

/**
 * The text of an option among the arguments; undefined without it. Reads the raw arguments, because citty reads any
 * value of a switch as true, and keeps only the last value of a list.
 */
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

export function usage(message: string): SconceError {
  return new SconceError("usage", message);
}
