/** The options of `serve`, from flags, `SCONCE_…` variables and an options file. serving-options.ts and work-options.ts have their names, units, defaults and limits. */
import { type LogFormat, type LogLevel, logFormats, logLevels } from "../base/log.ts";
import { choice, type OptionValues, option } from "../base/option.ts";
import { servingOptions } from "./serving-options.ts";
import { workOptions } from "./work-options.ts";

export type { ApiName, VersionWeight } from "./serving-options.ts";

/** Options that every command has. */
export const commonOptions = {
  logLevel: option<LogLevel>({
    description: `Lowest level of the log: ${logLevels.join(", ")}`,
    default: "info",
    ...choice(logLevels),
    valueHint: "level",
  }),
  logFormat: option<LogFormat>({
    description: "Log as text for people, or as one JSON object per line with time, level and message",
    default: "text",
    ...choice(logFormats),
  }),
} as const;

/** Every option of `serve`, in the order of its help. */
export const serveOptions = { ...servingOptions, ...workOptions } as const;

/** The groups of its help, by the option that begins each. */
export const serveGroups: Partial<Record<keyof typeof serveOptions | keyof typeof commonOptions | "cacheDir", string>> =
  {
    port: "Serving",
    batchSize: "Batching",
    isolate: "Processes",
    store: "Storage",
    queue: "Several servers",
    drainTimeout: "Shutdown",
    timeout: "Limits",
    fetchTimeout: "Input files",
    webhookSecret: "Webhooks",
    cacheDir: "Libraries",
    accessLog: "Logs",
  };

/** Limits without an option; tests choose others. */
export const fixedLimits: FixedLimits = {
  retainCount: undefined,
  pollShare: 0.1,
  maxReadyBytes: 256 * 2 ** 20,
  maxFetches: 32,
  maxLogBytes: 2 ** 20,
  taskAfterMs: 5000,
};

interface FixedLimits {
  /** Maximum finished predictions that stay readable; undefined means that only bytes and age count. */
  readonly retainCount: number | undefined;
  /** Share of an overloaded server for predictions whose clients poll. */
  readonly pollShare: number;
  /** Maximum bytes of queued tensors. */
  readonly maxReadyBytes: number;
  /** Maximum simultaneous downloads of input files. */
  readonly maxFetches: number;
  /** Maximum bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
  /** An MCP client that supports tasks gets a task as its answer after these milliseconds. */
  readonly taskAfterMs: number;
}

export type ServeConfig = OptionValues<typeof serveOptions> & FixedLimits;
