/** Measures a server under load from wrk. Each connection waits for an answer before it sends the next request. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/author/z.ts";
import { Child } from "./child.ts";
import { sum } from "./numbers.ts";

/**
 * HTTP requests for one prediction. `wait`: one POST with `Prefer: wait`. `create-get`: a POST creates the
 * prediction, and a GET waits for its end.
 */
export type RequestPattern = "wait" | "create-get";

export interface LoadOptions {
  readonly connections: number;
  readonly seconds: number;
  /**
   * Set if a batch takes a good part of the load's duration. The rate is then the slope of the answers over time,
   * because a count of answers can be wrong by a whole batch.
   */
  readonly hasSlowBatches?: boolean;
  /** Milliseconds between an answer and the next request of the same connection; default 0. */
  readonly thinkingMs?: number;
}

/** One thread of wrk sends more requests than two cores can answer, so a quarter of the cores is enough. */
const THREADS = Math.max(1, Math.floor(availableParallelism() / 4));

const answerSchema = z.object({
  answered: z.number(),
  failed: z.number(),
  seconds: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  arrivals: z.array(z.number()),
});

/** One line that says how to install wrk; undefined if wrk is installed. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

/** Requests of the API v2 (Open Inference Protocol) with binary tensors, in files. */
export interface BinaryBodies {
  /** The files are `prefix0.bin`, `prefix1.bin` and so on. */
  readonly prefix: string;
  readonly count: number;
  /** Bytes of the JSON part of each file. */
  readonly jsonBytes: number;
}

interface Requests {
  readonly url: string;
  /** Path of a file with one request body in each line; unused with `binary`. */
  readonly bodies: string;
  readonly requests?: RequestPattern;
  readonly binary?: BinaryBodies | undefined;
}

export async function load(
  { url, bodies, requests = "wait", binary }: Requests,
  { connections, seconds, hasSlowBatches = false, thinkingMs }: LoadOptions,
) {
  const script = join(import.meta.dir, "load.lua");
  const line = await Child.run(
    [
      "wrk",
      `-t${Math.min(connections, THREADS)}`,
      `-c${connections}`,
      `-d${seconds}s`,
      "--timeout=30s",
      "-s",
      script,
      url,
    ],
    {
      BENCH_BODIES: bodies,
      BENCH_REQUESTS: requests,
      ...(binary && { BENCH_BINARY: `${binary.prefix} ${binary.count} ${binary.jsonBytes}` }),
      ...(hasSlowBatches && { BENCH_ARRIVALS: "1" }),
      ...(thinkingMs !== undefined && { BENCH_THINKING_MS: String(thinkingMs) }),
    },
  );
  const { arrivals, seconds: took, ...done } = answerSchema.parse(JSON.parse(line));
  // wrk lists the arrivals thread by thread.
  arrivals.sort((a, b) => a - b);
  return { ...done, perSecond: hasSlowBatches ? 1000 * slope(arrivals) : done.answered / took };
}

/** Answers per millisecond: the least-squares slope of the number of answers over their arrival times. */
function slope(times: readonly number[]): number {
  const [middleTime, middleCount] = [sum(times) / times.length, (times.length - 1) / 2];
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if (!(last > first)) throw new Error(`${times.length} answers at one moment have no rate: give more --seconds`);
  const together = sum(times.map((time, count) => (time - middleTime) * (count - middleCount)));
  return together / sum(times.map((time) => (time - middleTime) ** 2));
}
