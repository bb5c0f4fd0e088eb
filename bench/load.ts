/** Load on a server, made by wrk: as many predictions as its connections bring through. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/author/z.ts";
import { Child } from "./child.ts";
import { sum } from "./numbers.ts";

/** A prediction is one request that waits for it (`Prefer: wait`), or one that creates it and one GET that waits for it. */
export type Way = "wait" | "create-get";

export interface LoadOptions {
  readonly connections: number;
  /** A whole number. */
  readonly seconds: number;
  /**
   * Answers come a batch at a time, and a batch takes a good part of the load: counted over the whole time, up to a batch too few or
   * too many would be in it. Then the rate is the slope of the answers over time, which that does not bend.
   */
  readonly hasSlowBatches?: boolean;
  /** Time between an answer and the next request of its connection. */
  readonly thinkingMs?: number;
}

/** One makes more requests than two cores answer. */
const THREADS = Math.max(1, Math.floor(availableParallelism() / 4));

const answerSchema = z.object({
  /** Predictions whose outputs came. */
  answered: z.number(),
  /** Requests that were answered with an error, or not at all. */
  failed: z.number(),
  seconds: z.number(),
  /** Of requests, which are predictions where one request waits for one. */
  p50Ms: z.number(),
  p99Ms: z.number(),
  arrivals: z.array(z.number()),
});

/** One line on how to get wrk; undefined if it is there. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

/** @param to.url what is posted to; @param to.bodies a file with one request body a line */
export async function load(
  { url, bodies, way = "wait" }: { url: string; bodies: string; way?: Way },
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
      BENCH_WAY: way,
      ...(hasSlowBatches && { BENCH_ARRIVALS: "1" }),
      ...(thinkingMs !== undefined && { BENCH_THINKING_MS: String(thinkingMs) }),
    },
  );
  const { arrivals, seconds: took, ...done } = answerSchema.parse(JSON.parse(line));
  // Those of one thread after those of another.
  arrivals.sort((a, b) => a - b);
  return { ...done, perSecond: hasSlowBatches ? 1000 * slope(arrivals) : done.answered / took };
}

/** By least squares, of a count that goes up by one at each of the times. Of a staircase with even steps it is exactly their rate. */
function slope(times: readonly number[]): number {
  const [middleTime, middleCount] = [sum(times) / times.length, (times.length - 1) / 2];
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if (!(last > first)) throw new Error(`${times.length} answers at one moment have no rate: give more --seconds`);
  const together = sum(times.map((time, count) => (time - middleTime) * (count - middleCount)));
  return together / sum(times.map((time) => (time - middleTime) ** 2));
}
