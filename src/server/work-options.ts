/** Options of `serve` about batches, processes, stored predictions, limits, input files, webhooks and the access log. */
import { z } from "zod";
import { deviceText } from "../author/device.ts";
import { bytes, choice, count, duration, flagOff, listOption, openOption, option, someBytes } from "../base/option.ts";
import { webhookSecret } from "../predictions/webhooks/webhook.ts";

const storeSyncs = ["normal", "full"] as const;
const roles = ["front", "worker", "both"] as const;

/** The options in the order in which `--help` lists them. */
export const workOptions = {
  batchSize: openOption<number>({
    description: "Maximum inputs in one batch",
    described: "the model's",
    ...count(1, 65536),
  }),
  device: openOption<string>({
    description:
      "Device of the model: cpu, cuda:N, several as cuda:0,cuda:1, cuda:all, or auto, which picks a GPU if there is one",
    valueHint: "device",
    described: "the model's, else auto",
    parse: deviceText,
  }),
  instances: openOption<number>({
    description:
      "Copies of the model that run at the same time on each device; they share the weights, unless a run changes the weights",
    described: "the model's, else 1",
    ...count(1, 256),
  }),
  threads: openOption<number>({
    description: "CPU threads of each instance",
    described: "the model's, else measured during warm-up",
    ...count(1, 1024),
  }),
  maxQueueDelay: openOption<number>({
    description: "Milliseconds that a ready input may wait for a larger batch",
    described: "the model's, else 0",
    ...duration("ms", 0),
  }),
  latencyTarget: openOption<number>({
    description: "Milliseconds from a ready input to the end of its batch; the server limits batch sizes to meet it",
    described: "the model's, else none",
    ...duration("ms", 0.1),
  }),
  fronts: openOption<number>({
    description: "Processes that answer clients and prepare inputs, on one port",
    described: "1; with 8 or more cores half as many, up to 8",
    isAdvanced: true,
    ...count(1, 60),
  }),
  batchTimeout: openOption<number>({
    description: "Seconds that a batch may run before its process is killed",
    described: "--timeout",
    isAdvanced: true,
    ...duration("seconds", 0.1),
  }),
  store: openOption<string>({
    description: "File that keeps predictions across restarts; memory keeps them until the server stops",
    valueHint: "file|memory",
    described: "a file for each model and port in predictions/ of SCONCE_HOME; memory with --port 0",
    isPath: true,
    parse: z.string().min(1, "must be a file, or memory"),
  }),
  storeSync: option<(typeof storeSyncs)[number]>({
    description: "normal: accepted predictions survive a kill of the server; full: also a power failure",
    default: "normal",
    isAdvanced: true,
    ...choice(storeSyncs),
  }),
  retainAge: option({
    description: "Seconds that a finished prediction stays readable",
    default: 3600,
    isAdvanced: true,
    // No timer is set for this duration, so it may be infinite.
    ...duration("seconds", 0, Infinity),
  }),
  queue: openOption<string>({
    description: "Redis or Valkey that several servers share: redis://host; rediss in place of redis uses TLS",
    valueHint: "url",
    isSecret: true,
    described: "none; this server works alone",
    parse: z.string().regex(/^rediss?:\/\/./, "must begin with redis:// or rediss://"),
  }),
  queueName: openOption<string>({
    description: "Servers with the same name share predictions; give each build another name",
    valueHint: "name",
    described: "the model's digest",
    isAdvanced: true,
    parse: z.string().regex(/^[\w.:@/-]{1,200}$/, "must be letters, digits and . : @ / - _"),
  }),
  queueLease: option({
    description: "Seconds without a sign of life from a server before others take over its predictions",
    default: 15,
    isAdvanced: true,
    ...duration("seconds", 1),
  }),
  role: option<(typeof roles)[number]>({
    description:
      "Part of this server: front answers clients and needs no libtorch, worker runs the model, both does everything",
    default: "both",
    ...choice(roles),
  }),
  drainTimeout: openOption<number>({
    description:
      "Seconds that a stopping server waits for accepted predictions; the next start runs the unfinished ones",
    described: "until all are finished",
    ...duration("seconds", 0),
  }),
  timeout: option({ description: "Seconds that a prediction may take", default: 600, ...duration("seconds", 0.001) }),
  maxBodyBytes: option({ description: "Maximum bytes of a request's body", ...bytes("64m") }),
  maxMemory: openOption<number>({
    description:
      "Maximum bytes held for clients: bodies, files, tensors and results; requests beyond this limit wait or are refused",
    described: "half of the container's or machine's memory",
    ...someBytes,
  }),
  allowPrivateUrls: option({
    description: "Allow loopback, private and other non-public addresses for downloads of files and for webhooks",
    isAdvanced: true,
    ...flagOff,
  }),
  webhookSecret: listOption<string>({
    description:
      "Secret that signs webhooks: whsec_ and 24 to 64 bytes in base64. While you change it, repeat the option: the new secret and the old one",
    valueHint: "secret",
    isSecret: true,
    described: "none; webhooks are refused",
    parse: webhookSecret,
  }),
  accessLog: option({
    description: "Log each request with its status, duration and X-Request-Id",
    ...flagOff,
  }),
} as const;
