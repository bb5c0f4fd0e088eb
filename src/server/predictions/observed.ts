/** Callbacks for changes and for the end of a prediction. Allocates nothing until the first callback is added. */
export abstract class Observed {
  #waiters: (() => void)[] | undefined;
  #watchers: Set<() => void> | undefined;

  abstract readonly isOver: boolean;

  /** Calls back once, when the prediction ends; immediately if it has ended. */
  onceOver(callback: () => void): void {
    if (this.isOver) callback();
    else {
      this.#waiters ??= [];
      this.#waiters.push(callback);
    }
  }

  /** Removes a callback that `onceOver` added. */
  removeWaiter(callback: () => void): void {
    this.#waiters = this.#waiters?.filter((waiter) => waiter !== callback);
  }

  /** Calls back at each change, and at the end. @returns a function that removes the callback */
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
