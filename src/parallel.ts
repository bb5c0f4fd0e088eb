/** A few things at a time. */

export interface ParallelOptions {
  readonly atOnce: number;
  readonly signal: AbortSignal;
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
  const both = AbortSignal.any([signal, controller.signal]);
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
