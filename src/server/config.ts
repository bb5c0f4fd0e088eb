/** The options of `serve`, from flags, `SCONCE_…` variables and an options file. */
import { type LogFormat, type LogLevel, logFormats, logLevels } from "../base/log.ts";
import { choice, type OptionValues, option } from "../base/option.ts";
import { servingOptions } from "./serving-options.ts";
import { workOptions } from "./work-options.ts";

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

/** All options of `serve`, in the order in which `--help` lists them. */
export const serveOptions = { ...servingOptions, ...workOptions } as const;

/** The headings of `serve --help`, by the first option below each heading. */
export const serveGroups: Partial<Record<keyof typeof serveOptions | keyof typeof commonOptions, string>> = {
  port: "Serving",
  batchSize: "Batching",
  fronts: "Processes",
  store: "Storage",
  queue: "Several servers",
  drainTimeout: "Shutdown",
  timeout: "Limits",
  allowPrivateUrls: "Input files",
  webhookSecret: "Webhooks",
  accessLog: "Logs",
};

/** Limits that no option sets. Tests use other values. */
export const fixedLimits = {
  /**
   * Seconds until an idle connection is closed, or up to 8 more. A connection that waits for a prediction stays open.
   * 0 means no limit; Bun allows at most 252.
   */
  idleTimeout: 120,
  /** Seconds that a stopping server without --queue keeps finished predictions readable, unless clients have read all. */
  linger: 5,
  /** Seconds for which a hook may block its front. Then the process ends, and the input of the hook fails. */
  hookTimeout: 10,
  /** Maximum unfinished inputs. */
  maxQueuedItems: 100_000,
  /** Maximum bytes of the bodies of unfinished predictions. */
  maxQueuedBytes: 512 * 2 ** 20,
  /** Maximum bytes of the outputs of one prediction. */
  maxResultBytes: 256 * 2 ** 20,
  /** Maximum inputs of one prediction of a model that does not declare `maxInputs`. */
  maxInputs: 10_000,
  /** Maximum bytes of finished predictions that stay readable; a prediction counts its results and 704 bytes. */
  retainBytes: 256 * 2 ** 20,
  /** Maximum bytes of tensors in the queue for a batch. */
  maxReadyBytes: 256 * 2 ** 20,
  maxFetches: 32,
  /** Seconds that the download of one input file may take. */
  fetchTimeout: 30,
  /** Maximum bytes of the logs of a demo prediction (POST /demo), which the model's page creates. */
  maxLogBytes: 2 ** 20,
};

export type ServeConfig = OptionValues<typeof serveOptions> & Readonly<typeof fixedLimits>;
