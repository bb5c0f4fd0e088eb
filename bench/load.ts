/** Load on a server, made by wrk: as many requests as its connections bring through, each with `Prefer: wait`. */
import { join } from "node:path";
import { missingTool } from "../scripts/setup/command.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";

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
}

/** One line on how to get wrk; undefined if it is there. */
export function missingWrk(): string | undefined {
  return Bun.which("wrk") ? undefined : missingTool("wrk, which makes the load", { apt: "wrk" });
}

export async function load({ url, bodies, connections, seconds }: LoadOptions): Promise<Load> {
  const script = join(import.meta.dir, "load.lua");
  const timeout = ["--timeout", "30s"];
  const line = await Child.run(
    ["wrk", "-t1", `-c${connections}`, `-d${seconds}s`, ...timeout, "-s", script, `${url}/predictions`],
    { BENCH_BODIES: bodies },
  );
  const { requests, refused, broken, seconds: took, p50Ms, p99Ms } = answerSchema.parse(JSON.parse(line));
  const answered = requests - refused;
  return { answered, perSecond: answered / took, failed: refused + broken, p50Ms, p99Ms };
}

const answerSchema = z.object({
  requests: z.number(),
  seconds: z.number(),
  refused: z.number(),
  broken: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
});
