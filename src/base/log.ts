/** Logging through one consola instance, as text for people or as JSON lines. */
import { fstatSync } from "node:fs";
import { format as formatted, inspect } from "node:util";
import { type ConsolaInstance, type ConsolaReporter, createConsola, LogLevels } from "consola";
import { messageOf, SconceError } from "./errors.ts";

/** From most to least verbose. */
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

/** Fields of a log line, passed as its last argument: members of a JSON line, or `name=value` at the end of a text line. */
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

/** Each line is a JSON object with `time` (ISO 8601), `level`, `message`, the `code` of an error, and the fields. */
const jsonReporter: ConsolaReporter = {
  log: ({ type, date, args }) => {
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

/** Standard error, with colours only on a terminal. consola alone would check standard output instead. */
const output: NodeJS.WriteStream = Object.create(process.stderr, {
  write: {
    value: (text: string) => {
      const isColoured = process.stderr.isTTY && !process.env.NO_COLOR;
      const shown = isColoured ? text : Bun.stripANSI(text);
      // consola puts warnings and errors between empty lines.
      return process.stderr.write(current.hasTimes ? `${new Date().toISOString()} ${shown.trim()}\n` : shown);
    },
  },
});

/** Writes to standard error, so that the result on standard output can be piped. */
export const log: ConsolaInstance = createConsola({
  stdout: output,
  stderr: output,
  // Only a terminal shows dates. Formatting the first one takes 8 ms of the start.
  formatOptions: { date: process.stderr.isTTY },
});

// Writes `trace` lines as `debug`, because consola adds a stack to `trace`.
const withoutStacks = (reporter: ConsolaReporter): ConsolaReporter => ({
  log: (line, context) => reporter.log(line.type === "trace" ? { ...line, type: "debug" } : line, context),
});
log.setReporters(log.options.reporters.map(withoutStacks));

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Whether each text begins with the time. */
  readonly hasTimes?: boolean | undefined;
}

let current: LogOptions = { level: "info", format: "text" };

/** Log lines of a server begin with the time, unless a terminal or journald shows one. */
export function logTimes(): void {
  current = { ...current, hasTimes: !process.stderr.isTTY && !isJournal() };
}

/** systemd names the device and the inode of its stream, as another stream may be in its place. */
function isJournal(): boolean {
  const { dev, ino } = fstatSync(process.stderr.fd);
  return process.env.JOURNAL_STREAM === `${dev}:${ino}`;
}

/** The current options, for starting child processes with the same. */
export function logOptions(): LogOptions {
  return current;
}

/** Whether log lines are JSON. Then standard error must contain nothing else. */
export function isLogJson(): boolean {
  return current.format === "json";
}

/** Whether lines of this level are written. Callers check this before they format a line for each request. */
export function isLogged(level: LogLevel): boolean {
  return log.level >= consolaLevels[level];
}

export function configureLog({ level, format, hasTimes = current.hasTimes }: LogOptions): void {
  log.level = consolaLevels[level];
  current = { level, format, hasTimes };
  if (format === "json") log.setReporters([jsonReporter]);
}

// In JSON mode, console output of a model's code becomes log lines. Installed only once, below the console capture of demos.
for (const method of ["warn", "error", "trace"] as const) {
  const original = console[method].bind(console);
  console[method] = (...values: unknown[]) => {
    if (current.format === "json") log.warn(formatted(...values));
    else original(...values);
  };
}
