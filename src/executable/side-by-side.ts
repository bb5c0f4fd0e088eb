/** Work that other threads do, as much at a time as there are cores for it. */
import { availableParallelism } from "node:os";

/** Calls `work` for each item; the first fault ends it. The results are in the order of the items. */
export async function sideBySide<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const entries = items.entries();
  const lane = async () => {
    // The lanes take turns at one iterator.
    for (const [i, item] of entries) results[i] = await work(item);
  };
  // One more than cores: reading and writing files leaves a core free.
  await Promise.all(Array.from({ length: availableParallelism() + 1 }, lane));
  return results;
}
