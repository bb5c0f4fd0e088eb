/** The options of `serve`: names, units, defaults and limits in one table, read from flags and `SCONCE_…` variables. */
import { z } from "zod";
import { deviceText } from "../author/device.ts";
import { type LogFormat, type LogLevel, logFormats, logLevels } from "../base/log.ts";
import {
  anyBytes,
  bytes,
  choice,
  count,
  duration,
  flag,
  hosts,
  listOption,
  type OptionValues,
  openOption,
  option,
  origins,
  share,
  someBytes,
} from "../base/option.ts";
import { webhookSecret } from "./webhooks/webhook.ts";

const storeSyncs = ["normal", "full"] as const;
const roles = ["front", "worker", "both"] as const;

/** Options that every command has. */
export const commonOptions = {
  logLevel: option<LogLevel>({
    description: `Lowest severity that is logged: ${logLevels.join(", ")}`,
    default: "info",
    ...choice(logLevels),
    valueHint: "level",
  }),
  logFormat: option<LogFormat>({
    description: "Log lines for people, or one JSON object a line with time, level and message, errors too",
    default: "text",
    ...choice(logFormats),
  }),
} as const;

/** Every option of `serve`, in the order of its help. */
export const serveOptions = {
  port: option({
    description: "Port to listen on; 0 takes a free one",
    alias: "p",
    default: 3000,
    // Hosting platforms set it.
    otherVariable: "PORT",
    ...count(0, 65535),
  }),
  host: option({
    description: "Address to listen on",
    valueHint: "address",
    default: "0.0.0.0",
    parse: z.string().min(1, "must be an address"),
  }),
  corsOrigin: openOption<readonly string[]>({
    description: "Pages whose scripts may read answers, by the origin of each, with commas between them; * for all",
    described: "none",
    ...origins,
  }),
  allowedHosts: openOption<readonly string[]>({
    description:
      "Host names that requests may name, with commas between them, *.example for all names below; IP addresses and localhost are always allowed",
    described: "localhost alone where --host is a loopback address, else all names",
    ...hosts,
  }),
  verify: option({
    description:
      "Check the model's files against their digests, once until they change; --no-verify checks its code alone",
    default: true,
    parse: flag,
  }),
  batchSize: openOption<number>({
    description: "Most items that go through the model together",
    described: "the model's",
    ...count(1, 65536),
  }),
  device: openOption<string>({
    description:
      "Where the model runs: cpu, cuda:N, several as cuda:0,cuda:1 or cuda:all; auto takes a GPU when there is one",
    valueHint: "device",
    described: "the model's, else auto",
    parse: deviceText,
  }),
  instances: openOption<number>({
    description:
      "Copies of the model that run side by side on each device, which share the weights, unless a run writes into these",
    described: "the model's, else 1",
    ...count(1, 256),
  }),
  threads: openOption<number>({
    description: "CPU threads of one instance",
    described: "the model's, else decided at warm-up",
    ...count(1, 1024),
  }),
  packLayers: option({
    description:
      "Arrange weights for this processor once, when they are loaded; --no-pack-layers has libtorch do all, which is slower",
    default: true,
    parse: flag,
  }),
  golden: option({
    description: "Compare the outputs of the example with those of the build, and refuse to start where they differ",
    default: true,
    parse: flag,
  }),
  maxQueueDelay: openOption<number>({
    description: "Milliseconds that a ready item may wait for a fuller batch",
    described: "the model's, else 0",
    ...duration("ms", 0),
  }),
  latencyTarget: openOption<number>({
    description: "Milliseconds from a ready item to the end of its batch: batches are sized and timed to keep it",
    described: "the model's, else none",
    ...duration("ms", 0.1),
  }),
  tune: option({
    description: "Serve nothing: measure batch sizes, instances and threads here, and print the best as flags",
    default: false,
    parse: flag,
  }),
  tuneSeconds: option({ description: "Seconds that --tune measures", default: 60, ...duration("seconds", 0.1) }),
  isolate: option({
    description:
      "Run the weights in a process of their own, whose end costs clients nothing but time; --no-isolate does not",
    default: true,
    parse: flag,
  }),
  fronts: openOption<number>({
    description: "Processes that answer clients and prepare inputs, on one port",
    described: "by cores: 1, from 8 on half of them, up to 8",
    ...count(1, 60),
  }),
  hookTimeout: option({
    description:
      "Seconds that one call of preprocess or postprocess may hold its process: its input fails, and twice as long restarts the process",
    default: 10,
    ...duration("seconds", 0.1),
  }),
  batchTimeout: openOption<number>({
    description: "Seconds that a batch may run before its process is ended",
    described: "that of predictions, --timeout",
    ...duration("seconds", 0.1),
  }),
  store: openOption<string>({
    description: "File that keeps predictions over restarts, or memory, which does not",
    valueHint: "file|memory",
    described: "one for each model and port in your data directory; memory with --port 0",
    parse: z.string().min(1, "must be a file, or memory"),
  }),
  storeSync: option<(typeof storeSyncs)[number]>({
    description: "What accepted predictions survive: normal a killed server, full also a power cut",
    default: "normal",
    ...choice(storeSyncs),
  }),
  retainCount: openOption<number>({
    description: "Most ended predictions that can still be read",
    described: "as many as --retain-bytes allows",
    ...count(0),
  }),
  retainAge: option({
    description: "Seconds that an ended prediction can be read",
    default: 3600,
    // No timer is set for it.
    ...duration("seconds", 0, Infinity),
  }),
  retainBytes: option({
    description: "Most bytes of ended predictions, each with 704 beside its results",
    ...bytes("256m", anyBytes),
  }),
  queue: openOption<string>({
    description:
      "Redis or Valkey that replicas share: redis://host; with -sentinel or -cluster and a list of hosts, rediss for TLS",
    valueHint: "url",
    described: "none: this server alone",
    parse: z.string().regex(/^rediss?(-sentinel|-cluster)?:\/\/./, "must begin with redis:// or rediss://"),
  }),
  queueName: openOption<string>({
    description: "Replicas with this name share predictions; one name for two builds mixes them",
    valueHint: "name",
    described: "the model's digest",
    parse: z.string().regex(/^[\w.:@/-]{1,200}$/, "must be letters, digits and . : @ / - _"),
  }),
  queueLease: option({
    description: "Seconds without a sign of a replica after which others do its work",
    default: 15,
    ...duration("seconds", 1),
  }),
  role: option<(typeof roles)[number]>({
    description: "What this replica does: front answers clients and needs no libtorch, worker runs the model",
    default: "both",
    ...choice(roles),
  }),
  bucket: openOption<string>({
    description: "S3 bucket for bodies and outputs beyond 1 MB; endpoint and keys from the usual variables",
    valueHint: "s3://bucket/folder",
    described: "none: they lie in the queue",
    parse: z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]+(\/.*)?$/, "must be s3://bucket or s3://bucket/folder"),
  }),
  drainTimeout: openOption<number>({
    description: "Seconds that a stop waits for accepted work; with a file as store the rest goes on at the next start",
    described: "until it has ended",
    ...duration("seconds", 0),
  }),
  shutdownDelay: option({
    description:
      "Seconds after SIGTERM in which work is still taken, for routers that learn late that the server is not ready",
    default: 0,
    ...duration("seconds", 0),
  }),
  linger: option({
    description: "Seconds that ended predictions can still be read at a stop, unless each was read before",
    default: 5,
    ...duration("seconds", 0),
  }),
  timeout: option({ description: "Seconds that a prediction may take", default: 600, ...duration("seconds", 0.001) }),
  maxInputs: openOption<number>({
    description: "Most inputs of one prediction",
    described: "the model's, else 10000",
    ...count(1),
  }),
  idleTimeout: option({
    description: "Seconds that a connection may be silent, except while it waits for a prediction; 0: for ever",
    default: 120,
    ...count(0, 255),
    valueHint: "seconds",
  }),
  maxConnections: openOption<number>({
    description: "Most connections of a front, counted ten times a second; others are refused",
    described: "what ulimit -n allows, less a tenth",
    ...count(1),
  }),
  maxBodyBytes: option({ description: "Most bytes of a request's body", ...bytes("64m") }),
  maxMemory: openOption<number>({
    description: "Most bytes held for clients: bodies, files, tensors, results; what comes beyond waits, or is refused",
    described: "half of the container's or machine's memory",
    ...someBytes,
  }),
  maxQueuedItems: option({ description: "Most inputs that are accepted and not done", default: 100_000, ...count(1) }),
  maxQueuedBytes: option({ description: "Most body bytes of predictions that are not done", ...bytes("512m") }),
  pollShare: option({
    description: "Share of a full server for predictions that no client waits for, once others' clients leave",
    default: 0.1,
    ...share,
  }),
  maxReadyBytes: option({ description: "Most tensor bytes that wait for a batch", ...bytes("256m") }),
  maxResultBytes: option({ description: "Most bytes of the outputs of one prediction", ...bytes("256m") }),
  maxDemoInputs: option({ description: "Most inputs of one demo prediction", default: 64, ...count(1) }),
  maxLogBytes: option({ description: "Most bytes of a demo prediction's logs", ...bytes("1m", anyBytes) }),
  fetchTimeout: option({
    description: "Seconds that fetching one file may take",
    default: 30,
    ...duration("seconds", 0.001),
  }),
  maxFetches: option({ description: "Most files that are fetched at the same time", default: 32, ...count(1, 10_000) }),
  maxFileBytes: openOption<number>({
    description: "Most bytes of one file, below what the field allows",
    described: "the field's",
    ...someBytes,
  }),
  maxPixels: openOption<number>({
    description: "Most pixels of one image, below what the field allows",
    described: "the field's",
    ...count(1),
  }),
  maxRedirects: option({ description: "Most redirects that are followed for one file", default: 3, ...count(0, 100) }),
  allowPrivateUrls: option({
    description: "Also fetch files from, and send webhooks to, loopback, private and other non-global addresses",
    default: false,
    parse: flag,
  }),
  webhookSecret: listOption<string>({
    description: "Sign webhooks with whsec_ and 24 to 64 bytes in base64; the old and the new one while it is changed",
    valueHint: "secret",
    isSecret: true,
    described: "none: webhooks are refused",
    parse: webhookSecret,
  }),
  accessLog: option({
    description: "Log a line for each request, with its status, its time and its X-Request-Id",
    default: false,
    parse: flag,
  }),
} as const;

/** The groups of its help, by the option that begins each. */
export const serveGroups: Partial<Record<keyof typeof serveOptions | keyof typeof commonOptions | "cacheDir", string>> =
  {
    port: "Serving",
    batchSize: "Batching",
    isolate: "Processes",
    store: "Predictions kept",
    queue: "Replicas",
    drainTimeout: "Ending",
    timeout: "Limits",
    fetchTimeout: "Files and fetching",
    webhookSecret: "Webhooks",
    cacheDir: "Libraries",
    accessLog: "Logs",
  };

export type ServeConfig = OptionValues<typeof serveOptions>;
