/** Load on a server, made by wrk: as many predictions as its connections bring through. */
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { sum } from "./turns.ts";

export interface Load {
  /** Predictions whose outputs came. */
  readonly answered: number;
  readonly perSecond: number;
  /** Requests that were answered with an error, or not at all. */
  readonly failed: number;
  /** Of requests, which are predictions where one request waits for one. */
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/**
 * How a prediction comes about: one request that waits for it (`Prefer: wait`); or one that creates it and one GET that waits for it;
 * or one that creates it and GETs until it is done.
 */
export type Way = "wait" | "create-get" | "create-poll";

export interface LoadOptions {
  /** What is posted to. */
  readonly url: string;
  readonly way?: Way;
  /** A file with one request body a line. */
  readonly bodies: string;
  readonly connections: number;
  /** A whole number. */
  readonly seconds: number;
  /**
   * Answers come a batch at a time, and a batch takes a good part of the load: counted over the whole time, up to a batch too few or
   * too many would be in it. Then the rate is the slope of the answers over time, which that does not bend.
   */
  readonly hasSlowBatches?: boolean;
}

/** Where a peer is polled: of what was tried, from none to 400 ms, this was answered most. */
const POLL_MS = 100;

/** One line on how to get wrk; undefined if it is there. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

export async function load(options: LoadOptions): Promise<Load> {
  const { url, way = "wait", bodies, connections, seconds, hasSlowBatches = false } = options;
  const script = join(import.meta.dir, way === "wait" ? "load.lua" : "create.lua");
  // Whoever polls has to know which prediction an answer is about: the one of its connection.
  const threads = way === "create-poll" ? connections : 1;
  const line = await Child.run(
    ["wrk", `-t${threads}`, `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", script, url],
    {
      BENCH_BODIES: bodies,
      BENCH_POLL_MS: String(way === "create-poll" ? POLL_MS : 0),
      ...(hasSlowBatches ? { BENCH_ARRIVALS: "1" } : {}),
    },
  );
  const { answered, failed, seconds: took, p50Ms, p99Ms, arrivals } = answerSchema.parse(JSON.parse(line));
  const perSecond = hasSlowBatches ? 1000 * slope(arrivals) : answered / took;
  return { answered, perSecond, failed, p50Ms, p99Ms };
}

/** By least squares, of a count that goes up by one at each of the times. Of a staircase with even steps it is exactly their rate. */
function slope(times: readonly number[]): number {
  const [middleTime, middleCount] = [sum(times) / times.length, (times.length - 1) / 2];
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if (!(last > first)) throw new Error(`${times.length} answers at one moment have no rate: give more --seconds`);
  const together = sum(times.map((time, count) => (time - middleTime) * (count - middleCount)));
  return together / sum(times.map((time) => (time - middleTime) ** 2));
}

const answerSchema = z.object({
  answered: z.number(),
  seconds: z.number(),
  failed: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  arrivals: z.array(z.number()),
});
