/**
 * `packed-times.ts FOLDER` measures how fast the networks of a folder run with packed and with plain weights, and
 * prints a line of JSON for each network and batch size.
 */

import type { Tensor } from "../../src/author/tensor.ts";
import { type NativeSession, openSession } from "../../src/engine/native/binding.ts";
import { CaseFolder, itemsOf } from "./case.ts";
import { isSlower, type PackedTime } from "./packing.ts";

const BATCHES = [1, 2, 7, 16];
/** Runs of a batch size before the measurement, which load the weights into the cache. */
const UNTIMED_RUNS = 5;
/**
 * Shortest block of runs, in milliseconds of processor time. The clock of processor time is too coarse for shorter
 * blocks.
 */
const BLOCK_MS = 10;
const LEAST_BLOCKS = 5;
const LEAST_MS = 300;
/**
 * Maximum number of measurements of a network. A network whose packed form is slower is measured again, because most
 * differences are noise.
 */
const MOST_MEASUREMENTS = 3;

const folder = await CaseFolder.open(process.argv[2] ?? "");
for (const each of folder.cases) {
  const largest = each.runs.findLast(({ expected }) => expected !== undefined);
  if (each.batched === undefined || each.compile || largest === undefined) continue;
  const options = { path: folder.file(each), device: "cpu", threads: 1, ...each.batched };
  const [packed, plain] = [await openSession(options), await openSession({ ...options, pack: false })];
  const items = itemsOf(folder.inputs(largest));
  for (const batch of BATCHES) {
    if (batch > items.length || packed.packedLayers === 0) continue;
    const rows = items.slice(0, batch);
    for (let i = 0; i < UNTIMED_RUNS; i++) await packed.run(rows);
    const blocks: Record<"packed" | "plain", Block>[] = [];
    let times: PackedTime["times"];
    do {
      blocks.push(await fastestBlocks(packed, plain, rows));
      times = blocks.map((block) => ({ packedMs: block.packed.ms, plainMs: block.plain.ms }));
    } while (times.length < MOST_MEASUREMENTS && isSlower(times));
    const pageFaults = Math.max(...blocks.flatMap((block) => [block.packed.pageFaults, block.plain.pageFaults]));
    const line: PackedTime = { case: each.name, batch, packedLayers: packed.packedLayers, times, pageFaults };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
  await packed.dispose();
  await plain.dispose();
}

/** Processor time in milliseconds, and page faults, of a run: means of a block of runs. */
interface Block {
  readonly ms: number;
  readonly pageFaults: number;
}

/**
 * Measures blocks of both sessions by turns. @returns the least time of a block of each session, and the median of its
 * page faults, because other threads of the process cause some in a few blocks
 */
async function fastestBlocks(
  packed: NativeSession,
  plain: NativeSession,
  rows: readonly (readonly Tensor[])[],
): Promise<Record<"packed" | "plain", Block>> {
  const blocks: Record<"packed" | "plain", Block[]> = { packed: [], plain: [] };
  const began = performance.now();
  while (blocks.plain.length < LEAST_BLOCKS || performance.now() - began < LEAST_MS) {
    blocks.packed.push(await block(packed, rows));
    blocks.plain.push(await block(plain, rows));
  }
  const summary = (each: Block[]) => ({
    ms: Math.min(...each.map(({ ms }) => ms)),
    pageFaults: each.map(({ pageFaults }) => pageFaults).toSorted((a, b) => a - b)[each.length >> 1] ?? 0,
  });
  return { packed: summary(blocks.packed), plain: summary(blocks.plain) };
}

/** Measures one block of runs. They follow each other as in a server, so the weights stay in the processor's cache. */
async function block(session: NativeSession, rows: readonly (readonly Tensor[])[]): Promise<Block> {
  await session.run(rows);
  const before = process.cpuUsage();
  const { minorPageFault } = process.resourceUsage();
  for (let runs = 1; ; runs++) {
    await session.run(rows);
    const { user, system } = process.cpuUsage(before);
    const ms = (user + system) / 1000;
    if (ms >= BLOCK_MS) {
      const pageFaults = (process.resourceUsage().minorPageFault - minorPageFault) / runs;
      return { ms: ms / runs, pageFaults };
    }
  }
}
