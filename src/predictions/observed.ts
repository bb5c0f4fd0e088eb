/** Waits for the end of a prediction. */
export interface Waiter {
  over(): void;
}

/** Base class of a prediction with callbacks for changes and for the end. */
export abstract class Observed {
  #waiters: Waiter[] | undefined;
  #watchers: Set<() => void> | undefined;

  abstract readonly isOver: boolean;

  /** Calls the waiter once, at the end of the prediction; at once if it has ended. */
  onceOver(waiter: Waiter): void {
    if (this.isOver) waiter.over();
    else if (this.#waiters === undefined) this.#waiters = [waiter];
    else this.#waiters.push(waiter);
  }

  /** Removes a waiter of `onceOver`. */
  removeWaiter(waiter: Waiter): void {
    this.#waiters = this.#waiters?.filter((other) => other !== waiter);
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
    if (waiters !== undefined) for (const waiter of waiters) waiter.over();
  }

  protected changed(): void {
    if (this.#watchers !== undefined) for (const callback of this.#watchers) callback();
  }
}
