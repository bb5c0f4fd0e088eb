/** Defines a command: reads its arguments, `SCONCE_…` variables and options file, and refuses wrong ones. */
import { parseArgs } from "node:util";
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

export interface Command extends HelpTexts {
  readonly options: OptionTable;
  readonly positionals: readonly Positional[];
  readonly file?: FileUse | undefined;
  readonly isServer?: boolean;
  /** Runs the command with the arguments after its name. */
  run(args: readonly string[]): Promise<void>;
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
    isServer,
    run: async (args) => run(checkArguments(args, options, { positionals, file })),
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

/** Arguments as given: texts of options by flag, the first unknown option, and the arguments that are no options. */
interface Given {
  readonly texts: ReadonlyMap<string, readonly string[]>;
  readonly unknown?: string | undefined;
  readonly positionals: readonly string[];
}

function givenIn(args: readonly string[], table: OptionTable): Given {
  const known = new Map(Object.entries(table).map(([key, option]) => [flagName(key), option]));
  const options = [...known].map(([name, option]) => [
    name,
    { type: isSwitch(option) ? "boolean" : "string", ...(option.alias === undefined ? {} : { short: option.alias }) },
  ]);
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(options),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const texts = new Map<string, string[]>();
  let unknown: string | undefined;
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name, rawName, value } = token;
    const option = known.get(name);
    const negated = known.get(name.replace(/^no-/, ""));
    if (option !== undefined) add(texts, name, value ?? (isSwitch(option) ? "true" : ""));
    else if (negated !== undefined && isSwitch(negated)) add(texts, name.slice("no-".length), "false");
    else unknown ??= rawName;
  }
  return { texts, unknown, positionals };
}

function add(texts: Map<string, string[]>, name: string, text: string): void {
  const all = texts.get(name);
  if (all === undefined) texts.set(name, [text]);
  else all.push(text);
}

interface CheckOptions {
  readonly positionals?: readonly Positional[];
  readonly file?: FileUse | undefined;
}

/** Checks and parses the arguments of a command. @throws SconceError `usage` that names the wrong argument */
export function checkArguments<O extends OptionTable>(
  args: readonly string[],
  table: O,
  { positionals = [], file: use }: CheckOptions = {},
): Parsed<O> {
  const found = givenIn(args, table);
  if (found.unknown !== undefined) {
    const near = closest(found.unknown.replace(/^-+/, ""), Object.keys(table).map(flagName));
    refuse(`unknown option ${found.unknown}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
  }
  const { config } = use === undefined ? {} : readOptions(found, configOptions);
  const file = use && openFile(config, table, use);
  const [fault, ...others] = file?.faults ?? [];
  if (fault !== undefined)
    refuse(others.length === 0 ? fault : `${fault} (and ${others.length} more: see \`config check\`)`);
  const given = found.positionals.length === 0 ? (file?.positionals ?? []) : found.positionals;
  const missing = positionals[given.length];
  if (missing?.required) refuse(`missing argument ${positionalName(missing)} (see --help)`);
  if (given.length > positionals.length && !positionals.at(-1)?.isVariadic) {
    refuse(`unexpected argument ${JSON.stringify(given[positionals.length])} (see --help)`);
  }
  const options = readOptions(found, table, { file });
  if (file !== undefined) {
    const { logLevel: level, logFormat: format } = readOptions(found, commonOptions, { file });
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
  const options = Object.entries(table).filter(([key]) => !use.excluded.includes(key) && !(key in configOptions));
  return OptionsFile.open(config, new Map(options.map(([key, option]) => [flagName(key), option])), use);
}

/** The name of a positional argument in help and messages: `MODEL`, or `REF…` for several. */
export function positionalName({ name, isVariadic }: Positional): string {
  return `${name.toUpperCase()}${isVariadic ? "…" : ""}`;
}

/**
 * Reads the options of `table` before the command checks its arguments. An option with a wrong value gets its default.
 */
export function peekOptions<O extends OptionTable>(args: readonly string[], table: O): OptionValues<O> {
  return readOptions(givenIn(args, table), table, { onFault: () => {} });
}

interface ReadOptions {
  readonly file?: OptionsFile | undefined;
  readonly onFault?: (message: string) => void;
}

function readOptions<O extends OptionTable>(given: Given, table: O, read: ReadOptions = {}): OptionValues<O> {
  const values = Object.entries(table).map(([key, option]) => [key, readOption(given, key, option, read).value]);
  // Each key has a value that the schema of its option has parsed, so the cast is safe.
  return Object.fromEntries(values) as OptionValues<O>;
}

export interface ReadOption {
  readonly value: unknown;
  /** Text of the value as given; undefined for the default. */
  readonly text: string | undefined;
  /** Where the value comes from: `--port`, `SCONCE_PORT`, `sconce.toml:3` or `default`. */
  readonly origin: string;
}

const noArguments: Given = { texts: new Map(), positionals: [] };

/** Options of a command that is called without arguments: from environment variables, the file and defaults. */
export function optionsInForce(table: OptionTable, read: ReadOptions): ReadonlyMap<string, ReadOption> {
  return new Map(Object.entries(table).map(([key, option]) => [key, readOption(noArguments, key, option, read)]));
}

/** Finds the value of an option: in flags first, then `SCONCE_…` variables, then the file, then the default. */
function readOption(
  given: Given,
  key: string,
  option: Option<unknown>,
  { file, onFault = refuse }: ReadOptions,
): ReadOption {
  const texts = given.texts.get(flagName(key));
  const flag = option.isList ? texts?.join("\n") : texts?.at(-1);
  const variable = [variableName(key, option), option.otherVariable].find((name) => name && isSet(process.env[name]));
  const entry = file?.find(flagName(key));
  const unset = { value: option.default, text: undefined, origin: "default" };
  const text = flag ?? (variable && process.env[variable]) ?? entry?.text;
  if (text === undefined) return unset;
  const origin = flag !== undefined ? `--${flagName(key)}` : (variable ?? entry?.origin ?? "");
  const { success, data, error } = option.parse.safeParse(text);
  if (success) return { value: data, text, origin };
  const shown = option.isSecret ? `a text of ${text.length} characters` : JSON.stringify(text);
  const name = origin === entry?.origin ? `${origin}: ${flagName(key)}` : origin;
  onFault(`${name} ${error.issues[0]?.message ?? "is malformed"}, not ${shown}`);
  return unset;
}

/**
 * Whether a variable has a value for an option. Kubernetes sets SCONCE_PORT to `tcp://ADDRESS:PORT` in all pods if a
 * service has the name sconce.
 */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && !/^(?:tcp|udp|sctp):\/\//.test(value);
}

function refuse(message: string): never {
  throw usage(message);
}

export function usage(message: string): SconceError {
  return new SconceError("usage", message);
}
