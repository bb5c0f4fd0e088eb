/** Translates option tables to citty's definitions, and checks the values that citty parsed. */
import { parseArgs as parseTokens } from "node:util";
import { type ArgsDef, parseArgs } from "citty";
import { closest } from "../../base/closest.ts";
import { SconceError } from "../../base/errors.ts";
import type { Option, OptionTable, OptionValues, Positional } from "../../base/option.ts";

export interface Parsed<O extends OptionTable> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
}

/** citty's context of a running command. */
export interface Given {
  readonly args: Readonly<Record<string, unknown>> & { readonly _: readonly string[] };
  readonly rawArgs: readonly string[];
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

/** The default as shown in help; undefined if there is none. */
export function defaultOf(option: Option<unknown>): string | undefined {
  if (option.described !== undefined) return option.described;
  if (option.isList) return "none";
  if (option.default === undefined) return undefined;
  if (isSwitch(option)) return option.default ? "on" : "off";
  return String(option.default);
}

/**
 * citty's argument definitions. Defaults appear only in the descriptions, because citty does not distinguish a default
 * from a given value.
 */
export function toArgs(table: OptionTable, positionals: readonly Positional[] = []): ArgsDef {
  const args: ArgsDef = {};
  for (const { name, isVariadic, description, required } of positionals) {
    // In capitals, so that a positional never hides an option of the same name.
    args[`${name.toUpperCase()}${isVariadic ? "…" : ""}`] = { type: "positional", description, required };
  }
  for (const [key, option] of Object.entries(table)) {
    const stated = defaultOf(option);
    const facts = [
      stated && `default: ${stated}`,
      option.variable && `variable: ${option.variable}`,
      option.otherVariable && `also read from ${option.otherVariable}`,
    ].filter(Boolean);
    args[flagName(key)] = {
      description: `${option.description}${facts.length > 0 ? ` (${facts.join("; ")})` : ""}`,
      ...(option.alias === undefined ? {} : { alias: option.alias }),
      ...(isSwitch(option) ? { type: "boolean" } : { type: "string", valueHint: option.valueHint ?? "text" }),
    };
  }
  return args;
}

/** @throws SconceError `usage` with the given text and the allowed values */
export function checkArguments<O extends OptionTable>(
  { args, rawArgs }: Given,
  table: O,
  positionals: readonly Positional[] = [],
): Parsed<O> {
  // citty accepts unknown options, and `--no-…` for options with a value, so both are refused here.
  const known = new Map<string, Option<unknown>>();
  for (const [key, one] of Object.entries(table))
    for (const name of [key, flagName(key), one.alias ?? key]) known.set(name, one);
  const own = ["_", ...Object.keys(toArgs({}, positionals))];
  for (const [name, value] of Object.entries(args)) {
    const option = known.get(name);
    if (own.includes(name) || (option !== undefined && (value !== false || isSwitch(option)))) continue;
    const given = `${name.length === 1 ? "-" : "--"}${value === false ? "no-" : ""}${name}`;
    const near = closest(given.replace(/^-+/, ""), Object.keys(table).map(flagName));
    return refuse(`unknown option ${given}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
  }
  if (args._.length > positionals.length && !positionals.at(-1)?.isVariadic) {
    return refuse(`unexpected argument ${JSON.stringify(args._[positionals.length])} (see --help)`);
  }
  return { options: readOptions({ args, rawArgs }, table), positionals: args._ };
}

/** Reads some options and ignores all faults of the call; a faulty option gets its default. */
export function peekOptions<O extends OptionTable>(rawArgs: readonly string[], table: O): OptionValues<O> {
  return readOptions({ args: parseArgs([...rawArgs], toArgs(table)), rawArgs }, table, () => {});
}

/** Precedence: flags, then `SCONCE_…` variables, then defaults. */
function readOptions<O extends OptionTable>(
  given: Given,
  table: O,
  onFault: (message: string) => void = refuse,
): OptionValues<O> {
  const values = Object.entries(table).map(([key, option]) => {
    const flag = flagText(given, flagName(key), option);
    const variable = setVariable([variableName(key, option), option.otherVariable]);
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

/** Name of the first variable that is set and not empty. */
function setVariable(names: readonly (string | undefined)[]): string | undefined {
  return names.find((name) => name !== undefined && (process.env[name] ?? "") !== "");
}

/** citty treats any value of a switch as true and keeps only the last value of a list, so these are parsed again. */
function flagText({ args, rawArgs }: Given, name: string, option: Option<unknown>): string | undefined {
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
  throw new SconceError("usage", message);
}
