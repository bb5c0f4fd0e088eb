/** Logging: one consola instance, for people by default, as JSON lines for programs. */
import { type ConsolaInstance, type ConsolaReporter, createConsola, LogLevels } from "consola";

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

const jsonReporter: ConsolaReporter = {
  log: ({ type, date, args }) => {
    const message = args.map((arg) => (arg instanceof Error ? arg.message : String(arg))).join(" ");
    process.stderr.write(
      `${JSON.stringify({ time: date.toISOString(), level: type === "warn" ? "warning" : type, message })}\n`,
    );
  },
};

/** Writes to standard error, so that a command's result on standard output can be piped on. */
export const log: ConsolaInstance = createConsola({ stdout: process.stderr, stderr: process.stderr });

export function configureLog(options: { readonly level: LogLevel; readonly format: LogFormat }): void {
  log.level = consolaLevels[options.level];
  if (options.format === "json") log.setReporters([jsonReporter]);
}
