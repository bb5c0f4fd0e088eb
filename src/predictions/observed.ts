/** Base class of a prediction with callbacks for changes and for the end. */
export abstract class Observed {
  #waiters: (() => void)[] | undefined;
  #watchers: Set<() => void> | undefined;

  abstract readonly isOver: boolean;

  /** Calls back once, at the end of the prediction; at once if it has ended. */
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

  /**
   * Calls back at each change, including the end.
   * @returns a function that removes the callback
   */
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
