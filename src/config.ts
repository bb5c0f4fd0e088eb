/** The options of `serve`: names, units, defaults and limits in one table, read from flags and `SCONCE_…` variables. */
import { z } from "zod";
import { type LogFormat, type LogLevel, logFormats, logLevels } from "./log.ts";
import { deviceText } from "./model/device.ts";

/** One option of a command. */
export interface Option<T> {
  readonly description: string;
  readonly valueHint?: string;
  readonly alias?: string;
  /** What applies when neither flag nor variable is given. */
  readonly default: T;
  /** How help states the default, where its value does not say it or it is decided elsewhere. */
  readonly described?: string;
  /** May be given several times; `parse` gets one text with a line each. */
  readonly isList?: boolean;
  /** Its variable, where that of its name means something else for another command. */
  readonly variable?: string;
  /** Reads the text of a flag or variable. */
  readonly parse: z.ZodType<Exclude<T, undefined>, string>;
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>;

/** What the options of a table are read into. */
export type OptionValues<O extends OptionTable> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

/** An option with a default of its own. */
export function option<T>(declared: Option<T>): Option<T> {
  return declared;
}

/** An option that is undefined unless given; `described` says what applies then. */
export function openOption<T>(declared: Omit<Option<T | undefined>, "default">): Option<T | undefined> {
  return { ...declared, default: undefined };
}

/** An option that may be given several times, in a variable with a line each; none by default. */
export function listOption<T>(
  declared: Omit<Option<T>, "default" | "isList" | "parse"> & { readonly parse: z.ZodType<T, string> },
): Option<readonly T[]> {
  const parse = z
    .string()
    .transform((lines) => lines.split("\n"))
    .pipe(z.array(declared.parse));
  return { ...declared, default: [], isList: true, parse };
}

const text = (pattern: RegExp, allowed: string) => z.string().regex(pattern, `must be ${allowed}`);

function integer(min: number, max = Number.MAX_SAFE_INTEGER) {
  const allowed = `a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
  return text(/^\d{1,15}$/, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));
}

function number(min: number) {
  const allowed = `a number of at least ${min}`;
  return text(/^\d{1,12}(\.\d+)?$/, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`));
}

const unitBytes: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };
const bytes = text(/^\d{1,12}[kmg]?$/i, "a number of bytes, with k, m or g for KiB, MiB or GiB").transform((given) => {
  const unit = given.slice(-1).toLowerCase();
  return unit in unitBytes ? Number(given.slice(0, -1)) * (unitBytes[unit] ?? 1) : Number(given);
});

/** A limit of 0 bytes would let nothing through. */
const someBytes = bytes.refine((given) => given > 0, "must be at least 1");

export const flag = z
  .enum(["true", "false", "1", "0", ""], 'must be "true" or "false"')
  .transform((given) => given !== "false" && given !== "0");

const oneOf = <const V extends readonly string[]>(values: V) => z.enum(values, `must be one of ${values.join(", ")}`);

const MiB = 2 ** 20;

export const storeSyncs = ["normal", "full"] as const;
export type StoreSync = (typeof storeSyncs)[number];

/** Options that every command has. */
export const commonOptions = {
  logLevel: option<LogLevel>({
    description: "What is logged: this and what matters more",
    valueHint: logLevels.join("|"),
    default: "info",
    parse: oneOf(logLevels),
  }),
  logFormat: option<LogFormat>({
    description: "Log lines for people, or one JSON object a line with time, level and message, errors too",
    valueHint: logFormats.join("|"),
    default: "text",
    parse: oneOf(logFormats),
  }),
} as const;

/** Every option of `serve`, in the order of its help. */
export const serveOptions = {
  port: option({
    description: "Port to listen on; 0 takes a free one",
    valueHint: "n",
    alias: "p",
    default: 3000,
    parse: integer(0, 65535),
  }),
  host: option({
    description: "Address to listen on",
    valueHint: "address",
    default: "0.0.0.0",
    parse: z.string().min(1, "must be an address"),
  }),
  batchSize: openOption<number>({
    description: "Most items that go through the model together",
    valueHint: "n",
    described: "the model's",
    parse: integer(1, 65536),
  }),
  device: openOption<string>({
    description: "Where the model runs: auto takes a GPU when there is one, cuda:0,cuda:1 or cuda:all take several",
    valueHint: "auto|cpu|cuda:N,…|cuda:all",
    described: "the model's, else auto",
    parse: deviceText,
  }),
  instances: openOption<number>({
    description: "Copies of the model that run side by side on each device, sharing the weights",
    valueHint: "n",
    described: "the model's, else 1",
    parse: integer(1, 256),
  }),
  threads: openOption<number>({
    description: "CPU threads of one instance",
    valueHint: "n",
    described: "the model's, else decided at warm-up",
    parse: integer(1, 1024),
  }),
  maxQueueDelay: openOption<number>({
    description: "Milliseconds that a ready item may wait for a fuller batch",
    valueHint: "ms",
    described: "the model's, else 0",
    parse: number(0),
  }),
  latencyTarget: openOption<number>({
    description: "Milliseconds from a ready item to the end of its batch: batches are sized and timed to keep it",
    valueHint: "ms",
    described: "the model's, else none",
    parse: number(0.1),
  }),
  isolate: option({
    description:
      "Run the weights in a process of their own, whose end costs clients nothing but time; --no-isolate does not",
    default: true,
    parse: flag,
  }),
  fronts: openOption<number>({
    description: "Processes that answer clients and prepare inputs, on one port",
    valueHint: "n",
    described: "by cores: 1, from 8 on 2, from 16 on 4",
    parse: integer(1, 60),
  }),
  batchTimeout: openOption<number>({
    description: "Seconds that a batch may run before its process is taken for stuck, and started again",
    valueHint: "seconds",
    described: "that of predictions, --timeout",
    parse: number(0.1),
  }),
  store: openOption<string>({
    description: "File that keeps predictions over restarts, or memory, which does not",
    valueHint: "file|memory",
    described: "one for each model and port in your data directory; memory with --port 0",
    parse: z.string().min(1, "must be a file, or memory"),
  }),
  storeSync: option<StoreSync>({
    description: "What accepted predictions survive: normal a killed server, full also a power cut",
    valueHint: storeSyncs.join("|"),
    default: "normal",
    parse: oneOf(storeSyncs),
  }),
  drainTimeout: openOption<number>({
    description: "Seconds that a stop waits for accepted work; with a file as store the rest goes on at the next start",
    valueHint: "seconds",
    described: "until it has ended",
    parse: number(0),
  }),
  shutdownDelay: option({
    description:
      "Seconds after SIGTERM in which work is still taken, for routers that learn late that the server is not ready",
    valueHint: "seconds",
    default: 0,
    parse: number(0),
  }),
  linger: option({
    description: "Seconds that ended predictions can still be read at a stop, unless each was read before",
    valueHint: "seconds",
    default: 5,
    parse: number(0),
  }),
  tune: option({
    description: "Serve nothing: measure batch sizes, instances and threads here, and print the best as flags",
    default: false,
    parse: flag,
  }),
  tuneSeconds: option({
    description: "Seconds that --tune measures",
    valueHint: "seconds",
    default: 60,
    parse: number(0.1),
  }),
  timeout: option({
    description: "Seconds that a prediction may take",
    valueHint: "seconds",
    default: 600,
    parse: number(0.001),
  }),
  maxInputs: openOption<number>({
    description: "Most inputs of one prediction",
    valueHint: "n",
    described: "the model's, else 10000",
    parse: integer(1),
  }),
  idleTimeout: option({
    description: "Seconds that a connection may be silent, except while it waits for a prediction; 0: for ever",
    valueHint: "seconds",
    default: 120,
    parse: integer(0, 255),
  }),
  maxConnections: openOption<number>({
    description: "Most connections of a front, counted ten times a second; others are refused",
    valueHint: "n",
    described: "what ulimit -n allows, less a tenth",
    parse: integer(1),
  }),
  maxBodyBytes: option({
    description: "Most bytes of a request's body",
    valueHint: "bytes",
    default: 64 * MiB,
    described: "64m",
    parse: someBytes,
  }),
  maxMemory: openOption<number>({
    description: "Most bytes held for clients: bodies, files, tensors, results; what comes beyond waits, or is refused",
    valueHint: "bytes",
    described: "half of the container's or machine's memory",
    parse: someBytes,
  }),
  maxQueuedItems: option({
    description: "Most inputs that are accepted and not done",
    valueHint: "n",
    default: 100_000,
    parse: integer(1),
  }),
  maxQueuedBytes: option({
    description: "Most body bytes of predictions that are not done",
    valueHint: "bytes",
    default: 512 * MiB,
    described: "512m",
    parse: someBytes,
  }),
  pollShare: option({
    description: "Share of a full server for predictions that no client waits for, once others' clients leave",
    valueHint: "share",
    default: 0.1,
    parse: number(0.01).refine((given) => given <= 1, "must be at most 1"),
  }),
  maxReadyBytes: option({
    description: "Most tensor bytes that wait for a batch",
    valueHint: "bytes",
    default: 256 * MiB,
    described: "256m",
    parse: someBytes,
  }),
  maxResultBytes: option({
    description: "Most bytes of the outputs of one prediction",
    valueHint: "bytes",
    default: 256 * MiB,
    described: "256m",
    parse: someBytes,
  }),
  maxDemoInputs: option({
    description: "Most inputs of one demo prediction",
    valueHint: "n",
    default: 64,
    parse: integer(1),
  }),
  maxLogBytes: option({
    description: "Most bytes of a demo prediction's logs",
    valueHint: "bytes",
    default: 1 * MiB,
    described: "1m",
    parse: bytes,
  }),
  retainCount: openOption<number>({
    description: "Most ended predictions that can still be read",
    valueHint: "n",
    described: "as many as --retain-bytes allows",
    parse: integer(0),
  }),
  retainAge: option({
    description: "Seconds that an ended prediction can be read",
    valueHint: "seconds",
    default: 3600,
    parse: number(0),
  }),
  retainBytes: option({
    description: "Most bytes of ended predictions, each with 704 beside its results",
    valueHint: "bytes",
    default: 256 * MiB,
    described: "256m",
    parse: bytes,
  }),
  fetchTimeout: option({
    description: "Seconds that fetching one file may take",
    valueHint: "seconds",
    default: 30,
    parse: number(0.001),
  }),
  maxFetches: option({
    description: "Most files that are fetched at the same time",
    valueHint: "n",
    default: 32,
    parse: integer(1, 10_000),
  }),
  maxFileBytes: openOption<number>({
    description: "Most bytes of one file, below what the field allows",
    valueHint: "bytes",
    described: "the field's",
    parse: someBytes,
  }),
  maxPixels: openOption<number>({
    description: "Most pixels of one image, below what the field allows",
    valueHint: "n",
    described: "the field's",
    parse: integer(1),
  }),
  maxRedirects: option({
    description: "Most redirects that are followed for one file",
    valueHint: "n",
    default: 3,
    parse: integer(0, 100),
  }),
  allowPrivateUrls: option({
    description: "Also fetch files from loopback, private and other non-global addresses",
    default: false,
    parse: flag,
  }),
} as const;

export type ServeConfig = OptionValues<typeof serveOptions>;
