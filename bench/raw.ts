/** The raw loop, a baseline without a server: libtorch runs batches of ready tensors in a separate process. */
import { join } from "node:path";
import { z } from "../src/author/z.ts";
import { keptMemory } from "../src/machine/libtorch/libtorch-env.ts";
import { Child } from "./child.ts";
import { type Network, type Output, outputSchema, python, storeEnv } from "./networks.ts";
import { rounded } from "./report.ts";
import type { Start, Target } from "./target.ts";

/** Requests to the raw loop: run batches of `rows` rows for `ms`, or return the output of each input. */
export const rawRequestSchema = z.union([
  z.object({ rows: z.int(), ms: z.number() }),
  z.object({ outputs: z.literal("all") }),
]);
const rateSchema = z.object({
  perSecond: z.number(),
  /** Median time of a batch in milliseconds. Only the loop in Python measures it. */
  medianMs: z.number().default(Number.NaN),
});
const outputsSchema = z.object({ outputs: z.array(outputSchema) });

interface RawOptions {
  readonly threads?: number;
  readonly device?: string;
  /** Rearranges the weights for the processor, as the server does. Default: libtorch's layout. */
  readonly isPacked?: boolean;
}

/**
 * Baseline on the addon: runs batches of `rows` rows. It tries each size of a list, and measures the fastest. The
 * inputs are sorted by size and repeat for the whole measurement, with two batches in flight.
 */
export function raw(rows: number | readonly number[], options: RawOptions = {}): Start {
  return async (network) => {
    const loop = await addonLoop(network, options);
    const tried: { rows: number; rate: number }[] = [];
    // Callers list the probably fastest size last, because the first sizes also pay for one-time work such as
    // compilation.
    for (const each of [rows].flat()) tried.push({ rows: each, rate: (await run(loop, each, 0)).perSecond });
    const best = tried.reduce((a, b) => (b.rate > a.rate ? b : a));
    if (tried.length === 1) return target(`the raw loop, batch ${best.rows}`, loop, best.rows);
    console.error(`  raw by batch size: ${tried.map((each) => `${each.rows}: ${rounded(each.rate)}/s`).join(", ")}`);
    return target(`the raw loop, sorted, best batch ${best.rows}`, loop, best.rows);
  };
}

/**
 * Baseline in Python: PyTorch runs one batch of random numbers at a time. It also reports the median time of a batch.
 */
export function rawInPython(rows: number, device = "cpu"): Start {
  return async ({ folder }) => {
    const { command, env } = python();
    const script = [join(import.meta.dir, "raw_loop.py"), join(folder, "weights.pt"), device];
    return target("the raw loop in Python", new Child([command, ...script], { env }), rows);
  };
}

/** The addon's output for each input, computed in a batch of one. */
export async function rawOutputs(network: Network): Promise<Output[]> {
  await using loop = await addonLoop(network);
  return outputsSchema.parse(await loop.ask({ outputs: "all" })).outputs;
}

async function addonLoop(network: Network, options: RawOptions = {}): Promise<Child> {
  const { threads = 1, device = "cpu", isPacked = false } = options;
  const { name, folder, inputs } = network;
  const file = join(folder, "inputs.json");
  await Bun.write(file, JSON.stringify(inputs));
  const script = join(import.meta.dir, "raw-loop.ts");
  const env = { ...storeEnv, ...keptMemory };
  const layers = isPacked ? "packed" : "plain";
  return new Child([process.execPath, script, name, file, String(threads), device, layers], { env });
}

const run = async (loop: Child, rows: number, seconds: number) =>
  rateSchema.parse(await loop.ask({ rows, ms: seconds * 1000 }));

function target(title: string, loop: Child, rows: number): Target {
  return {
    title,
    async measure({ seconds }) {
      const { perSecond, medianMs } = await run(loop, rows, seconds);
      return { perSecond, p50Ms: medianMs };
    },
    [Symbol.asyncDispose]: () => loop[Symbol.asyncDispose](),
  };
}
