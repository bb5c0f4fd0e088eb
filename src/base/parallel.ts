/** A few things at a time. */
import { availableParallelism } from "node:os";

export interface ParallelOptions {
  readonly atOnce: number;
  readonly signal?: AbortSignal;
}

/**
 * Does the work for each item, a few at a time. When one fails the others are aborted, and have ended when this rejects with the
 * first failure: nothing goes on behind it.
 */
export async function inParallel<T>(
  items: readonly T[],
  { atOnce, signal }: ParallelOptions,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  const both = signal === undefined ? controller.signal : AbortSignal.any([signal, controller.signal]);
  const left = items.values();
  let failure: { readonly error: unknown } | undefined;
  const worker = async () => {
    try {
      for (const item of left) {
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

/** Does work that other threads do, as much at a time as there are cores for it. The results are in the order of the items. */
export async function onAllCores<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  // One more than cores: reading and writing files leaves a core free.
  await inParallel([...items.entries()], { atOnce: availableParallelism() + 1 }, async ([i, item]) => {
    results[i] = await work(item);
  });
  return results;
}
