/** From a command line to checked values: citty renders the help and splits the arguments, the option tables say what they may be. */
import { type ArgsDef, parseArgs } from "citty";
import { closest } from "../closest.ts";
import type { Option, OptionTable, OptionValues } from "../config.ts";
import { SconceError } from "../errors.ts";

export interface Positional {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
}

export interface Parsed<O extends OptionTable> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
}

/** `batchSize` as `batch-size`. */
function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `batchSize` as `SCONCE_BATCH_SIZE`. */
export function variableName(key: string): string {
  return `SCONCE_${flagName(key).toUpperCase().replaceAll("-", "_")}`;
}

function isBoolean(option: Option<unknown>): boolean {
  return typeof option.default === "boolean";
}

/** A table as citty takes it. */
export function toArgs(table: OptionTable, positionals: readonly Positional[] = []): ArgsDef {
  const args: ArgsDef = {};
  for (const { name, description, required } of positionals) args[name] = { type: "positional", description, required };
  for (const [key, option] of Object.entries(table)) {
    const described =
      option.described ?? (option.default === undefined || isBoolean(option) ? undefined : String(option.default));
    const description = `${option.description}${described === undefined ? "" : ` (default: ${described})`}`;
    const alias = option.alias === undefined ? {} : { alias: option.alias };
    args[flagName(key)] = isBoolean(option)
      ? { type: "boolean", description, ...alias }
      : {
          type: "string",
          description,
          ...alias,
          ...(option.valueHint === undefined ? {} : { valueHint: option.valueHint }),
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
  const args = parseArgs(
    [...rawArgs],
    toArgs(
      table,
      positionals.map((positional) => ({ ...positional, required: false })),
    ),
  );
  refuseUnknown(args, table, positionals);
  const rest = args._;
  if (rest.length > positionals.length) {
    throw usage(`unexpected argument ${JSON.stringify(rest[positionals.length])}`);
  }
  const missing = positionals.slice(rest.length).find(({ required }) => required);
  if (missing !== undefined) throw usage(`missing argument ${missing.name.toUpperCase()}: ${missing.description}`);
  const options = Object.fromEntries(
    Object.entries(table).map(([key, option]) => {
      const given = args[flagName(key)];
      if (given !== undefined) return [key, read(option, String(given), `--${flagName(key)}`)];
      const variable = process.env[variableName(key)];
      return [
        key,
        variable === undefined || variable === "" ? option.default : read(option, variable, variableName(key)),
      ];
    }),
  );
  // Every key of the table was read by its own schema.
  return { options: options as OptionValues<O>, positionals: rest };
}

function read(option: Option<unknown>, given: string, name: string): unknown {
  const parsed = option.parse.safeParse(given);
  if (parsed.success) return parsed.data;
  throw usage(`${name} ${parsed.error.issues[0]?.message ?? "is malformed"}, not ${JSON.stringify(given)}`);
}

function refuseUnknown(
  args: Readonly<Record<string, unknown>>,
  table: OptionTable,
  positionals: readonly Positional[],
): void {
  const flags = Object.keys(table).map(flagName);
  const known = new Set(["_", ...Object.keys(table), ...flags, ...positionals.map(({ name }) => name)]);
  for (const { alias } of Object.values(table)) if (alias !== undefined) known.add(alias);
  const unknown = Object.keys(args).find((name) => !known.has(name));
  if (unknown === undefined) return;
  const near = closest(unknown, flags);
  const given = unknown.length === 1 ? `-${unknown}` : `--${unknown}`;
  throw usage(`unknown option ${given}${near === undefined ? "" : `; did you mean --${near}?`} (see --help)`);
}

function usage(message: string): SconceError {
  return new SconceError("usage", message);
}
