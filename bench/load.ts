/** Load on a server, made with wrk: each connection sends its next request after an answer. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/author/z.ts";
import { Child } from "./child.ts";
import { sum } from "./numbers.ts";

/**
 * Requests of a prediction: one POST that waits for the end (`Prefer: wait`), or a POST that creates it and a GET that
 * waits for its end.
 */
export type RequestPattern = "wait" | "create-get";

export interface LoadOptions {
  readonly connections: number;
  /** An integer. */
  readonly seconds: number;
  /**
   * Answers arrive a batch at a time, and a batch takes a good part of the load. A plain count would be wrong by up to
   * a batch. The rate is then the slope of answers over time.
   */
  readonly hasSlowBatches?: boolean;
  /** Time between an answer and the next request of its connection. */
  readonly thinkingMs?: number;
}

/** One thread of wrk makes more requests than two cores answer. */
const THREADS = Math.max(1, Math.floor(availableParallelism() / 4));

const answerSchema = z.object({
  /** Predictions with outputs. */
  answered: z.number(),
  /** Requests with an error or without an answer. */
  failed: z.number(),
  seconds: z.number(),
  /** Latency of a request. With `wait`, a request is a prediction. */
  p50Ms: z.number(),
  p99Ms: z.number(),
  arrivals: z.array(z.number()),
});

/** How to install wrk, as one line; undefined if it is installed. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

/** Sends load. @param to.url URL of the POST requests; @param to.bodies a file with one request body a line */
export async function load(
  { url, bodies, requests = "wait" }: { url: string; bodies: string; requests?: RequestPattern },
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
      ...(hasSlowBatches && { BENCH_ARRIVALS: "1" }),
      ...(thinkingMs !== undefined && { BENCH_THINKING_MS: String(thinkingMs) }),
    },
  );
  const { arrivals, seconds: took, ...done } = answerSchema.parse(JSON.parse(line));
  // wrk lists times thread by thread.
  arrivals.sort((a, b) => a - b);
  return { ...done, perSecond: hasSlowBatches ? 1000 * slope(arrivals) : done.answered / took };
}

/** Slope of a count that grows by one at each of the times, by least squares. Exact for evenly spaced times. */
function slope(times: readonly number[]): number {
  const [middleTime, middleCount] = [sum(times) / times.length, (times.length - 1) / 2];
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if (!(last > first)) throw new Error(`${times.length} answers at one moment have no rate: give more --seconds`);
  const together = sum(times.map((time, count) => (time - middleTime) * (count - middleCount)));
  return together / sum(times.map((time) => (time - middleTime) ** 2));
}
