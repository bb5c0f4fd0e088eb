/** Logging: one consola instance, for people by default, as JSON lines for programs. */
import { format as formatted, inspect } from "node:util";
import { type ConsolaInstance, type ConsolaReporter, createConsola, LogLevels } from "consola";
import { messageOf, SconceError } from "./errors.ts";

/** From most to least; each shows itself and all after it. */
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

/** What a line belongs to, as its last argument: members of a JSON line, `name=value` at the end of a text line. */
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

/** One JSON object a line: `time` (ISO 8601), `level`, `message`, `code` where an error has one, and the fields. */
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

/** Standard error with colours only where a terminal shows them: consola looks at standard output to decide that. */
const output: NodeJS.WriteStream = Object.create(process.stderr, {
  write: {
    value: (text: string) => {
      const isColoured = process.stderr.isTTY && !process.env.NO_COLOR;
      return process.stderr.write(isColoured ? text : Bun.stripANSI(text));
    },
  },
});

/** Writes to standard error, so that a command's result on standard output can be piped on. */
export const log: ConsolaInstance = createConsola({
  stdout: output,
  stderr: output,
  // Shown where lines have a width; to write it takes 8 ms of each start.
  formatOptions: { date: process.stderr.isTTY },
});

// As `debug`: consola adds a stack to lines of the type `trace`.
const withoutStacks = (reporter: ConsolaReporter): ConsolaReporter => ({
  log: (line, context) => reporter.log(line.type === "trace" ? { ...line, type: "debug" } : line, context),
});
log.setReporters(log.options.reporters.map(withoutStacks));

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
}

let current: LogOptions = { level: "info", format: "text" };

/** As configured last: other processes of this server log alike. */
export function logOptions(): LogOptions {
  return current;
}

/** Whether log lines are JSON objects: then nothing else may be written to standard error. */
export function isLogJson(): boolean {
  return current.format === "json";
}

/** Whether lines of this level are written: what is logged for each request is not even formatted where they are not. */
export function isLogged(level: LogLevel): boolean {
  return log.level >= consolaLevels[level];
}

export function configureLog({ level, format }: LogOptions): void {
  log.level = consolaLevels[level];
  current = { level, format };
  if (format === "json") log.setReporters([jsonReporter]);
}

// A model's code writes to standard error, too. Once and for all, so that it stays behind what catches the console of a demo.
for (const method of ["warn", "error", "trace"] as const) {
  const original = console[method].bind(console);
  console[method] = (...values: unknown[]) => {
    if (current.format === "json") log.warn(formatted(...values));
    else original(...values);
  };
}
