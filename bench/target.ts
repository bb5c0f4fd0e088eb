/** A program that the benchmark measures. A server must give right answers before it is measured. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "../src/author/z.ts";
import { inRole } from "../test/helpers/running.ts";
import type { Child } from "./child.ts";
import { type LoadOptions, load, type RequestPattern } from "./load.ts";
import { type Input, type Network, type Output, outputSchema } from "./networks.ts";
import { sum } from "./numbers.ts";

export interface Sample {
  readonly perSecond: number;
  readonly failed?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** More figures for the table, by name and unit; NaN if unknown. */
  readonly details?: Readonly<Record<string, number>>;
}

export interface Target extends AsyncDisposable {
  /** Name of the program, e.g. "mosec 0.9.8". */
  readonly title: string;
  measure(options: LoadOptions): Promise<Sample>;
  /**
   * Throws if an answer is wrong. The check waits for requests of the previous load, so that the next measurement
   * starts on an idle server. Undefined for programs without a server.
   */
  check?(): Promise<void>;
}

export type Start = (network: Network) => Promise<Target>;

/** How to request a prediction from a server. */
export interface Api {
  readonly path: string;
  readonly requests?: RequestPattern;
  /** The JSON body of a request with one input. */
  readonly body: (input: Input) => unknown;
  /** Reads the first output in an answer's JSON. */
  readonly answer: z.ZodType<Output>;
}

export interface ServerOptions {
  readonly title: string;
  readonly child: Child;
  readonly url: string;
  readonly api: Api;
  /** The server's process and other resources that end with it. */
  readonly owned: AsyncDisposable;
}

const ANSWER_MS = 60_000;
const TOLERANCE = 1e-4;
const successSchema = z.looseObject({ status: z.literal("success"), outputs: z.tuple([outputSchema]) });

export const sconceApi: Api = {
  path: "/predictions",
  body: (input) => [input],
  answer: successSchema.transform(({ outputs: [output] }) => output),
};

/** OpenAI's embeddings API of the model examples/minilm. Like OpenAI's clients, it requests base64. */
export const openaiApi: Api = {
  path: "/v1/embeddings",
  body: ({ text }) => ({ model: "minilm", input: text, encoding_format: "base64" }),
  answer: z.looseObject({ data: z.tuple([z.looseObject({ embedding: z.string() })]) }).transform(({ data }) => {
    const { buffer } = Uint8Array.fromBase64(data[0].embedding);
    return { embedding: [...new Float32Array(buffer)] };
  }),
};

export class Server implements Target {
  readonly title: string;
  readonly child: Child;
  readonly url: string;
  readonly #network: Network;
  readonly #options: ServerOptions;
  /** Path of a file with one request body per line, for wrk. */
  readonly bodies: string;

  constructor(network: Network, options: ServerOptions) {
    this.title = options.title;
    this.child = options.child;
    this.url = `${options.url}${options.api.path}`;
    this.#network = network;
    this.#options = options;
    this.bodies = join(network.folder, `bodies-${options.child.pid}.txt`);
    const lines = network.requests.map((input) => `${JSON.stringify(options.api.body(input))}\n`);
    writeFileSync(this.bodies, lines.join(""));
  }

  async check(): Promise<void> {
    const { tolerance = TOLERANCE } = this.#network;
    await Promise.all(
      this.#network.samples.map(async ({ input, output }) => {
        const given = await this.#ask(input);
        const names = Object.keys({ ...output, ...given });
        if (names.every((name) => areClose(given[name] ?? [], output[name] ?? [], tolerance))) return;
        const both = JSON.stringify({ given, expected: output }).slice(0, 500);
        throw new Error(`${this.title} answered wrongly: ${both}`);
      }),
    );
  }

  async askSample(): Promise<void> {
    await this.#ask(this.#network.samples[0]?.input ?? {});
  }

  async #ask(input: Input): Promise<Output> {
    const response = await fetch(this.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Prefer: "wait" },
      body: JSON.stringify(this.#options.api.body(input)),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${this.title} answered with ${response.status}: ${text.slice(0, 500)}`);
    return this.#options.api.answer.parse(JSON.parse(text));
  }

  async measure(options: LoadOptions): Promise<Sample> {
    const { requests = "wait" } = this.#options.api;
    const before = await this.#work();
    const done = await load({ url: this.url, bodies: this.bodies, requests }, options);
    const after = await this.#work();
    const added = (of: keyof typeof after) => after[of] - before[of];
    const perItem = (of: keyof typeof after) => (1e6 * added(of)) / done.answered;
    // wrk ends a load by closing its connections, which cancels one prediction on each. Cancelled predictions are no
    // failures.
    const lost = Math.max(0, (added("failed") || 0) - options.connections);
    return {
      perSecond: done.perSecond,
      failed: done.failed + lost,
      ...(requests === "wait" && { p50Ms: done.p50Ms, p99Ms: done.p99Ms }),
      // Processor time varies less than the rate on a shared machine.
      details: {
        "µs of the main thread": perItem("jsSeconds") || Number.NaN,
        "µs of the engine process": perItem("engineSeconds"),
        "items a batch": added("items") / added("batches"),
        "ms a batch": (1000 * added("batchSeconds")) / added("batches"),
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#options.owned[Symbol.asyncDispose]();
    rmSync(this.bodies, { force: true });
  }

  /** Counters of the server; NaN for a server without such metrics. */
  async #work() {
    const response = await fetch(new URL("/metrics", this.url)).catch(() => undefined);
    const text = response?.ok ? await response.text() : "";
    const read = (series: string) => {
      const found = [...text.matchAll(new RegExp(`^${series}(?:\\{.*\\})? (\\S+)$`, "gm"))];
      return found.length === 0 ? Number.NaN : sum(found.map(([, value]) => Number(value)));
    };
    return {
      batches: read("sconce_batch_size_count"),
      items: read("sconce_batch_size_sum"),
      failed: read('sconce_predictions_total{.*status="failed".*}'),
      /** Seconds of all batches, from dispatch to outputs. */
      batchSeconds: read("sconce_batch_seconds_sum"),
      ...(await processorSeconds(this.child.pid)),
    };
  }
}

/** Whether each number e is within the tolerance t of its expected number: |given - expected| <= t * (1 + |given|). */
export function areClose(given: readonly number[], expected: readonly number[], tolerance: number): boolean {
  const isClose = (value: number, i: number) =>
    Math.abs(value - (expected[i] ?? Number.NaN)) <= tolerance * (1 + Math.abs(value));
  return given.length === expected.length && given.every(isClose);
}

/**
 * Processor seconds so far: of the main threads of process `pid` and of the HTTP processes, which run JavaScript, and
 * of all threads of the engine process. NaN for other servers, and on systems other than Linux.
 */
async function processorSeconds(pid: number): Promise<{ jsSeconds: number; engineSeconds: number }> {
  const seconds = (thread: string) => Number(readFileSync(`/proc/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e9;
  try {
    const fronts = [pid, ...(await inRole(pid, "front"))].map((front) => `${front}/task/${front}`);
    const threads = (await inRole(pid, "engine")).flatMap((engine) =>
      readdirSync(`/proc/${engine}/task`).map((thread) => `${engine}/task/${thread}`),
    );
    return { jsSeconds: sum(fronts.map(seconds)), engineSeconds: sum(threads.map(seconds)) || Number.NaN };
  } catch {
    return { jsSeconds: Number.NaN, engineSeconds: Number.NaN };
  }
}
