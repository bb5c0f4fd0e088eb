/** Load on a server, made by wrk: as many requests as its connections bring through, each with `Prefer: wait`. */
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { sum } from "./turns.ts";

export interface Load {
  /** Requests that were answered with 2xx or 3xx. */
  readonly answered: number;
  readonly perSecond: number;
  /** Requests that were answered with another status, or not at all. */
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface LoadOptions {
  readonly url: string;
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

/** One line on how to get wrk; undefined if it is there. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

export async function load(options: LoadOptions): Promise<Load> {
  const { url, bodies, connections, seconds, hasSlowBatches = false } = options;
  const script = join(import.meta.dir, "load.lua");
  const timeout = ["--timeout", "30s"];
  const line = await Child.run(
    ["wrk", "-t1", `-c${connections}`, `-d${seconds}s`, ...timeout, "-s", script, `${url}/predictions`],
    { BENCH_BODIES: bodies, ...(hasSlowBatches ? { BENCH_ARRIVALS: "1" } : {}) },
  );
  const { requests, refused, broken, seconds: took, p50Ms, p99Ms, arrivals } = answerSchema.parse(JSON.parse(line));
  const answered = requests - refused;
  const perSecond = hasSlowBatches ? 1000 * slope(arrivals) : answered / took;
  return { answered, perSecond, failed: refused + broken, p50Ms, p99Ms };
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
  requests: z.number(),
  seconds: z.number(),
  refused: z.number(),
  broken: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  arrivals: z.array(z.number()),
});
