/** Logging through one consola instance, as text for people or as JSON lines. */
import { format as formatted, inspect } from "node:util";
import { type ConsolaInstance, type ConsolaReporter, createConsola, LogLevels } from "consola";
import { messageOf, SconceError } from "./errors.ts";

/** Log levels, from most to least verbose. */
export const logLevels = ["trace", "debug", "info", "warning", "error"] as const;
export type LogLevel = (typeof logLevels)[number];
export const logFormats = ["text", "json"] as const;
export type LogFormat = (typeof logFormats)[number];

const consolaLevels: Record<LogLevel, number> = {
  trace: LogLevels.trace,
  debug: LogLevels.debug,
  info: LogLevels.info,
  warning: LogLevels.warn,
  error: LogLevels.error,
};

/**
 * Named values of a log line, passed as its last argument. They become members of a JSON line, or `name=value` at the
 * end of a text line.
 */
export class LogFields {
  readonly values: Readonly<Record<string, string | number | undefined>>;

  constructor(values: Readonly<Record<string, string | number | undefined>>) {
    this.values = values;
  }

  [inspect.custom](): string {
    const known = Object.entries(this.values).filter(([, value]) => value !== undefined);
    return known.map(([name, value]) => `${name}=${value}`).join(" ");
  }
}

let fieldsOfEachLine: LogFields | undefined;

/** Adds named values to each further line of this process. */
export function addToEachLine(fields: LogFields): void {
  fieldsOfEachLine = fields;
}

/** Adds the named values of `addToEachLine` to the arguments of a line. The line's own values take precedence. */
function withFields(args: unknown[]): unknown[] {
  if (fieldsOfEachLine === undefined) return args;
  const own = args.find((arg) => arg instanceof LogFields);
  const rest = args.filter((arg) => arg !== own);
  return [...rest, new LogFields({ ...fieldsOfEachLine.values, ...own?.values })];
}

/** Writes JSON objects with `time` (ISO 8601), `level`, `message`, the `code` of an error, and the named values. */
const jsonReporter: ConsolaReporter = {
  log: ({ type, date, args: given }) => {
    const args = withFields(given);
    const fields = args.find((arg) => arg instanceof LogFields)?.values;
    const message = args
      .filter((arg) => !(arg instanceof LogFields))
      .map(messageOf)
      .join(" ");
    const code = args.find((arg) => arg instanceof SconceError)?.code;
    const level = type === "warn" ? "warning" : (logLevels.find((known) => known === type) ?? "info");
    process.stderr.write(`${JSON.stringify({ time: date.toISOString(), level, message, code, ...fields })}\n`);
  },
};

/**
 * Standard error, with colours only on a terminal. Without this stream, consola would look at standard output to decide
 * about colours.
 */
const output: NodeJS.WriteStream = Object.create(process.stderr, {
  write: {
    value: (text: string) => {
      const isColoured = process.stderr.isTTY && !process.env.NO_COLOR;
      const shown = isColoured ? text : Bun.stripANSI(text);
      // `trim` removes the empty lines that consola puts around warnings and errors.
      return process.stderr.write(current.hasTimes ? `${new Date().toISOString()} ${shown.trim()}\n` : shown);
    },
  },
});

/** Writes log lines to standard error, so that the results on standard output can be piped. */
export const log: ConsolaInstance = createConsola({
  stdout: output,
  stderr: output,
  // consola formats dates only on a terminal: the first formatted date delays the start by 8 ms.
  formatOptions: { date: process.stderr.isTTY },
});

// Writes `trace` lines as `debug`, because consola adds a stack to `trace`.
const asText = (reporter: ConsolaReporter): ConsolaReporter => ({
  log: (line, context) =>
    reporter.log({ ...line, args: withFields(line.args), type: line.type === "trace" ? "debug" : line.type }, context),
});
log.setReporters(log.options.reporters.map(asText));

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Whether each line of text begins with the time. */
  readonly hasTimes?: boolean | undefined;
}

let current: LogOptions = { level: "info", format: "text" };

/** Begins the log lines of a server with the time, unless standard error is a terminal. */
export function logTimes(): void {
  current = { ...current, hasTimes: !process.stderr.isTTY };
}

/** The options in use, to start child processes with the same options. */
export function logOptions(): LogOptions {
  return current;
}

/** Whether log lines are JSON. Then standard error must contain only JSON lines. */
export function isLogJson(): boolean {
  return current.format === "json";
}

/** Whether lines of this level are written. Code that logs each request checks this before it formats the line. */
export function isLogged(level: LogLevel): boolean {
  return log.level >= consolaLevels[level];
}

export function configureLog({ level, format, hasTimes = current.hasTimes }: LogOptions): void {
  log.level = consolaLevels[level];
  current = { level, format, hasTimes };
  if (format === "json") log.setReporters([jsonReporter]);
}

// In JSON mode, turns `console.warn`, `error` and `trace` of a model's code into log lines. Runs once, before demos
// replace `console` to capture their output.
for (const method of ["warn", "error", "trace"] as const) {
  const original = console[method].bind(console);
  console[method] = (...values: unknown[]) => {
    if (current.format === "json") log.warn(formatted(...values));
    else original(...values);
  };
}
