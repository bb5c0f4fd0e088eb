/** Callbacks at the changes and at the end of a prediction. Allocates nothing before the first callback. */
export abstract class Observed {
  #waiters: (() => void)[] | undefined;
  #watchers: Set<() => void> | undefined;

  abstract readonly isOver: boolean;

  /** Calls back once, at the end; at once for an ended prediction. */
  onceOver(callback: () => void): void {
    if (this.isOver) callback();
    else {
      this.#waiters ??= [];
      this.#waiters.push(callback);
    }
  }

  /** Removes a callback of `onceOver`. */
  removeWaiter(callback: () => void): void {
    this.#waiters = this.#waiters?.filter((waiter) => waiter !== callback);
  }

  /** Calls back at each change, and at the end. @returns a function that stops this */
  watch(callback: () => void): () => void {
    this.#watchers ??= new Set();
    this.#watchers.add(callback);
    return () => this.#watchers?.delete(callback);
  }

  protected callWaiters(): void {
    const waiters = this.#waiters;
    this.#waiters = undefined;
    if (waiters !== undefined) for (const callback of waiters) callback();
  }

  protected changed(): void {
    if (this.#watchers !== undefined) for (const callback of this.#watchers) callback();
  }
}
