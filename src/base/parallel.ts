/** Runs async work on many items with a limited concurrency. */
import { availableParallelism } from "node:os";

export interface ParallelOptions {
  readonly atOnce: number;
  readonly signal?: AbortSignal;
}

/**
 * Runs `work` for each item, `atOnce` at a time. A failure aborts the signal of the other calls. Rejects with the first
 * failure once all calls have settled.
 */
export async function inParallel<T>(
  items: readonly T[],
  { atOnce, signal }: ParallelOptions,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  const both = signal === undefined ? controller.signal : AbortSignal.any([signal, controller.signal]);
  const remaining = items.values();
  let failure: { readonly error: unknown } | undefined;
  const worker = async () => {
    try {
      for (const item of remaining) {
        both.throwIfAborted();
        await work(item, both);
      }
    } catch (error) {
      failure ??= { error };
      controller.abort(error);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failure) throw failure.error;
}

/** Runs `work` for all items on all cores, if it computes on other threads. The results keep the order of the items. */
export async function onAllCores<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  // One call more than cores, because a call that reads or writes files uses no core.
  await inParallel([...items.entries()], { atOnce: availableParallelism() + 1 }, async ([i, item]) => {
    results[i] = await work(item);
  });
  return results;
}
