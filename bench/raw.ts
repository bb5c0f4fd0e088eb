/** The raw loop: what libtorch alone does with batches of ready tensors, in a process of its own. */
import { join } from "node:path";
import { z } from "../src/author/z.ts";
import { keptMemory } from "../src/engine/libtorch-env.ts";
import { Child } from "./child.ts";
import { type Network, type Output, outputSchema, python, storeEnv } from "./networks.ts";
import { rounded } from "./report.ts";
import type { Start, Target } from "./target.ts";

/** What a loop is asked: batches of `rows` for `ms`; or what the model gives for each of the inputs. */
export const rawRequestSchema = z.union([
  z.object({ rows: z.int(), ms: z.number() }),
  z.object({ outputs: z.literal("all") }),
]);
const rateSchema = z.object({
  perSecond: z.number(),
  /** Of one batch, where they run one after the other. */
  medianMs: z.number().default(Number.NaN),
});
const outputsSchema = z.object({ outputs: z.array(outputSchema) });

interface RawOptions {
  readonly threads?: number;
  readonly device?: string;
  /** Whether layers have their weights as the server's have them; else libtorch does all by itself. */
  readonly isPacked?: boolean;
}

/**
 * In this program's own addon, batches of so many rows, or of those of several that are the fastest: of all inputs, sorted by their
 * size, as often as the time allows and at least once, two under way.
 */
export function raw(rows: number | readonly number[], options: RawOptions = {}): Start {
  return async (network) => {
    const loop = await addonLoop(network, options);
    const tried: { rows: number; rate: number }[] = [];
    // The likeliest last, so that it does not pay for what is done once.
    for (const each of [rows].flat()) tried.push({ rows: each, rate: (await run(loop, each, 0)).perSecond });
    const best = tried.reduce((a, b) => (b.rate > a.rate ? b : a));
    if (tried.length === 1) return target(`the raw loop, batch ${best.rows}`, loop, best.rows);
    console.error(`  raw by batch size: ${tried.map((each) => `${each.rows}: ${rounded(each.rate)}/s`).join(", ")}`);
    return target(`the raw loop, sorted, best batch ${best.rows}`, loop, best.rows);
  };
}

/** The same in PyTorch for Python, on random numbers; one batch after the other, which tells how long one takes. */
export function rawInPython(rows: number, device = "cpu"): Start {
  return async ({ folder }) => {
    const { command, env } = python();
    const script = [join(import.meta.dir, "raw_loop.py"), join(folder, "weights.pt"), device];
    return target("the raw loop in Python", new Child([command, ...script], { env }), rows);
  };
}

/** What the addon makes of each input, alone. */
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
