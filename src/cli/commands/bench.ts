/** `sconce bench [URL]`: measures the latency of a running server at growing loads. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { codedError, oneLine, SconceError } from "../../base/errors.ts";
import { parsedJson } from "../../base/json.ts";
import { log } from "../../base/log.ts";
import { milliseconds, rounded } from "../../base/milliseconds.ts";
import { count, duration, filePath, flagOff, openOption, option } from "../../base/option.ts";
import { command, usage } from "../command-line/command.ts";
import { formatTable } from "../command-line/table.ts";
import { chart } from "./bench/chart.ts";
import { type Load, NO_ANSWER, offer, saturate } from "./bench/offered-load.ts";
import { DEFAULT_URL, ServerClient, serverOptions } from "./remote/server-client.ts";

/** The default loads, as shares of the server's capacity. */
const SHARES = [0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.2];
/** A server that answers less than this share of the offered load is saturated. */
const SATURATED = 0.95;
/** Maximum number of loads if --rates is not given. The command adds higher loads while the server keeps up. */
const MAX_LOADS = 12;
/** Maximum seconds for which the capacity is measured. A shorter --seconds replaces it. */
const CAPACITY_S = 3;
/** Maximum number of requests without an answer. */
const MAX_OPEN = 4096;
/** Milliseconds to wait for outstanding answers after a load. */
const GRACE_MS = 10_000;
/**
 * Time limit for the first answer, in milliseconds. The first request may load the model. The limit exceeds the 60 s of
 * `Prefer: wait`.
 */
const FIRST_MS = 70_000;
/** A warning is logged if requests are sent later than planned by more than this share of the median latency. */
const MAX_LATE_SHARE = 0.25;

const failedSchema = z.looseObject({ status: z.literal("failed"), error_message: z.string() });
const modelSchema = z.looseObject({ name: z.string(), tag: z.string(), batch_size: z.number() });

export const bench = command({
  details: `The command sends the model's examples, one or more in each request, and measures latency as clients see it. Run the command on another machine than the server's, because on the same machine they share the processor.

First, busy connections measure the capacity of the server. Then the command sends requests at 10 to 120 % of the capacity, and at higher rates while the server keeps up. With \`--rates\`, the command sends requests at these rates only, and measures no capacity unless \`--connections\` is set. Use \`--rates\` for a server in use.

The command sends the requests at random times, as many independent clients do, and does not wait for earlier answers. So the table has the offered and the sent rate. Latency counts from the planned time of a request. Refused requests (429, 503) and requests without an answer have no latency: the column OUTCOMES counts them. If the server stops, the command prints the loads so far and exits with 1.`,
  example: `sconce bench
sconce bench https://models.example.com/models/digits --rates 100,200,400 --seconds 10
sconce bench --input pictures.json --json > bench.json`,
  options: {
    rates: openOption<readonly number[]>({
      description: "Requests per second of each load",
      valueHint: "n,…",
      variable: "SCONCE_BENCH_RATES",
      described: "10 to 120 % of the capacity",
      parse: z
        .string()
        .regex(/^\d+(\.\d+)?(,\d+(\.\d+)?)*$/, "must be numbers with commas between them")
        .transform((given) => given.split(",").map(Number))
        .refine((given) => given.every((rate) => rate > 0), "must be numbers above 0"),
    }),
    seconds: option({
      description: "Seconds of each load",
      default: 5,
      variable: "SCONCE_BENCH_SECONDS",
      ...duration("seconds", 0.1, 600),
    }),
    inputs: option({
      description: "Inputs in each request",
      default: 1,
      variable: "SCONCE_BENCH_INPUTS",
      ...count(1, 10_000),
    }),
    input: openOption<string>({
      description: "JSON file with a list of inputs",
      described: "the examples of the server",
      variable: "SCONCE_BENCH_INPUT",
      ...filePath,
    }),
    connections: openOption<number>({
      description: "Busy connections that measure the capacity",
      described: "four batches, at most 256; none with --rates",
      variable: "SCONCE_BENCH_CONNECTIONS",
      ...count(1, 4096),
    }),
    json: option({ description: "Print JSON", ...flagOff }),
    ...serverOptions,
  },
  positionals: [
    {
      name: "url",
      description: `Address of the server, or of one of several models: ${DEFAULT_URL}/models/digits; default: ${DEFAULT_URL}`,
      required: false,
    },
  ],
  async run({ options, positionals: [url = DEFAULT_URL] }) {
    const client = new ServerClient(url, options);
    const model = await client.json("", modelSchema);
    const bodies = bodiesOf(await inputsOf(client, options.input), options.inputs);
    let turn = 0;
    const predict = (signal: AbortSignal) => {
      const body = bodies[turn++ % bodies.length] ?? "[]";
      const headers = { "Content-Type": "application/json", Prefer: "wait" };
      return client.fetch("predictions", { method: "POST", headers, body, signal });
    };
    const ask = async (signal: AbortSignal) => outcomeOf(await predict(signal));
    await checkFirst(client, await predict(AbortSignal.timeout(FIRST_MS)));
    const requests = bodies.length === 1 ? "the same request each time" : `${bodies.length} requests in turn`;
    log.info(`Measuring ${model.name}:${model.tag} at ${client.url} with ${requests}`);
    const busy = options.rates === undefined || options.connections !== undefined;
    const connections = busy ? (options.connections ?? Math.min(256, 4 * model.batch_size)) : undefined;
    const seconds = (most: number) => Math.min(most, options.seconds);
    let capacity: Load | undefined;
    // Warm-up: the first requests compile code, in this process and in the server.
    if (connections === undefined) {
      await offer(ask, { rate: options.rates?.[0] ?? 1, seconds: seconds(1), maxOpen: MAX_OPEN, graceMs: GRACE_MS });
    } else {
      await saturate(ask, { connections, seconds: seconds(1), graceMs: GRACE_MS });
      capacity = await saturate(ask, { connections, seconds: seconds(CAPACITY_S), graceMs: GRACE_MS });
      const fault = await faultAfter(client, capacity);
      if (fault !== undefined) throw fault;
      const median = capacity.answered === 0 ? "none succeeded" : `median ${milliseconds(capacity.p50Ms)}`;
      log.info(`${connections} busy connections: ${rounded(capacity.answered)} requests a second, ${median}`);
    }
    const { answered = 0 } = capacity ?? {};
    const rates = [...(options.rates ?? SHARES.map((share) => share * answered).filter((rate) => rate > 0))];
    if (capacity !== undefined && rates.length === 0)
      throw new SconceError("not_ready", `no request succeeded: ${outcomesOf(capacity)}`);
    const loads: Load[] = [];
    let stopped: SconceError | undefined;
    for (let rate = rates.shift(); rate !== undefined; rate = rates.shift()) {
      const load = await offer(ask, { rate, seconds: options.seconds, maxOpen: MAX_OPEN, graceMs: GRACE_MS });
      loads.push(load);
      stopped = await faultAfter(client, load);
      if (stopped !== undefined) break;
      if (!options.json) log.info(`${rounded(load.offered)} offered: ${rounded(load.answered)} answered a second`);
      // The server can exceed the measured capacity, so higher loads follow while it keeps up.
      const keepsUp = load.answered > SATURATED * load.sent;
      if (options.rates === undefined && rates.length === 0 && keepsUp && loads.length < MAX_LOADS)
        rates.push(1.25 * rate);
    }
    if (options.json) {
      const { name, tag, batch_size } = model;
      console.log(
        JSON.stringify({ url: client.url, model: { name, tag, batch_size }, connections, capacity, loads }, null, 2),
      );
    } else {
      print(loads, capacity && { load: capacity, name: `${connections} busy` });
    }
    if (stopped !== undefined) throw stopped;
    const late = loads.find(({ lateMs, p50Ms }) => lateMs > MAX_LATE_SHARE * p50Ms && lateMs > 1);
    if (late !== undefined) {
      log.warn(
        `At ${rounded(late.offered)} requests a second this client was ${milliseconds(late.lateMs)} late (99th percentile): the latencies contain it. Use another machine, or fewer requests`,
      );
    }
  },
});

/** Inputs from a file, or the model's examples. @throws SconceError `usage` */
async function inputsOf(client: ServerClient, file: string | undefined): Promise<readonly unknown[]> {
  if (file === undefined) {
    const examples = await client.json("examples", z.array(z.unknown()));
    if (examples.length > 0) return examples;
    throw usage("the model has no example: give inputs with --input FILE");
  }
  const text = await readFile(file, "utf8").catch((error: Error) => {
    throw usage(`--input ${file} cannot be read: ${error.message}`);
  });
  const parsed = z.array(z.unknown()).min(1).safeParse(parsedJson(text)).data;
  if (parsed !== undefined) return parsed;
  throw usage(`--input ${file} must be a JSON list of inputs, such as [{"x": 1}]`);
}

/** Makes as many bodies as there are inputs. Each body has the next `each` inputs; the first input follows the last. */
function bodiesOf(inputs: readonly unknown[], each: number): string[] {
  return inputs.map((_, first) =>
    JSON.stringify(Array.from({ length: each }, (_, i) => inputs[(first * each + i) % inputs.length])),
  );
}

/**
 * Checks the first answer. @throws SconceError with the server's reason if it refused the request or the prediction
 * failed
 */
async function checkFirst(client: ServerClient, response: Response): Promise<void> {
  const text = await response.text();
  // A full server answers 429 or 503. These answers do not stop the benchmark: the measurement counts them.
  if (!response.ok && response.status !== 429 && response.status !== 503)
    throw client.refusal(`POST ${client.url}/predictions`, response.status, text);
  const { error_message: message } = failedSchema.safeParse(parsedJson(text)).data ?? {};
  if (message !== undefined) throw new SconceError("not_ready", `the first prediction failed: ${oneLine(message)}`);
}

/** The error of a server that stopped during a load; undefined if the server answers. */
async function faultAfter(client: ServerClient, { outcomes }: Load): Promise<SconceError | undefined> {
  if (outcomes[NO_ANSWER] === undefined) return undefined;
  return client.text("").then(
    () => undefined,
    (error: unknown) => codedError(error),
  );
}

async function outcomeOf(response: Response): Promise<string> {
  const text = await response.text();
  if (!response.ok) return String(response.status);
  // Looks only at the beginning: outputs may be large, and the status comes before them.
  return /"status":\s*"(\w+)"/.exec(text.slice(0, 1000))?.[1] ?? "other";
}

interface NamedLoad {
  readonly load: Load;
  readonly name: string;
}

function print(loads: readonly Load[], capacity: NamedLoad | undefined): void {
  const all: NamedLoad[] = loads.map((load) => ({ load, name: rounded(load.offered) }));
  const rows = [...all, ...(capacity === undefined ? [] : [capacity])].map(({ load, name }) => [
    name,
    rounded(load.sent),
    rounded(load.answered),
    ...[load.p50Ms, load.p90Ms, load.p99Ms, load.maxMs].map((ms) => (Number.isNaN(ms) ? "-" : rounded(ms))),
    outcomesOf(load),
  ]);
  console.log(
    formatTable(["OFFERED/S", "SENT/S", "ANSWERED/S", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "OUTCOMES"], rows),
  );
  const curve = (mark: string, name: string, of: (load: Load) => number) => ({
    mark,
    name,
    points: loads.filter((load) => of(load) > 0).map((load) => [load.offered, of(load)] as const),
  });
  const curves = [curve("▪", "p99", (load) => load.p99Ms), curve("•", "p50", (load) => load.p50Ms)];
  const lines = chart(curves, {
    width: Math.max(20, Math.min(60, (process.stdout.columns ?? 80) - 20)),
    height: 12,
    xName: "offered a second",
    yName: "ms",
    formatX: rounded,
    formatY: rounded,
  });
  console.log(`\n${lines.join("\n")}`);
}

function outcomesOf({ outcomes }: Load): string {
  return Object.entries(outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([name, times]) => `${name} ${times}`)
    .join(", ");
}
