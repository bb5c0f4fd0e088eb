/** A suite that measures how fast networks run with packed and with plain layers. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { libtorchEnv } from "../../src/engine/libtorch-env.ts";
import { linesOf } from "./checker.ts";
import { type Making, made } from "./maker.ts";

const packedTime = z.object({
  case: z.string(),
  batch: z.number(),
  packedLayers: z.number(),
  /** One entry for each measurement: milliseconds of processor time of a run, in the fastest block. */
  times: z.array(z.object({ packedMs: z.number(), plainMs: z.number() })),
  /**
   * Page faults of a run: the mean of the median block, the largest of all measurements. Above zero, the times also
   * depend on the memory allocator.
   */
  pageFaults: z.number(),
});
export type PackedTime = z.infer<typeof packedTime>;

const child = join(import.meta.dir, "packed-times.ts");

/** A packed network may take this many times as long as a plain one. Measurements differ by about 5 percent. */
const MOST_RATIO = 1.05;

/** Whether the packed network is slower by more than 5 percent in every measurement. */
export function isSlower(times: PackedTime["times"]): boolean {
  return times.every(({ packedMs, plainMs }) => packedMs > MOST_RATIO * plainMs);
}

export async function* packedTimes(making: Making): AsyncGenerator<PackedTime> {
  for await (const said of made(making)) {
    if ("skipped" in said) continue;
    const running = Bun.spawn([process.execPath, "--no-install", child, said.folder], {
      // The engine process's memory settings avoid page faults, which can cost more time than packing gains.
      env: { ...libtorchEnv(), ...process.env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    for await (const line of linesOf(running.stdout)) {
      if (line.startsWith("{")) yield packedTime.parse(JSON.parse(line));
    }
    if ((await running.exited) !== 0) throw new Error(`${child} failed in ${said.folder}`);
    await rm(said.folder, { recursive: true });
  }
}
