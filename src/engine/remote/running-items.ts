/**
 * Flags of running items, in memory that a front shares with the engine process. After a crash of the process, the front
 * reads which items may be the cause. Items of batches that were not announced have flags, too.
 */
export class RunningItems {
  static readonly BYTES = 2 ** 16;
  /**
   * One byte for each item number modulo `BYTES`: 1 while the item runs. A front has far fewer items in the engine, so no
   * two of them share a byte.
   */
  readonly #flags: Uint8Array;

  /** @param shared begins with `BYTES` bytes for the flags */
  constructor(shared: ArrayBuffer) {
    this.#flags = new Uint8Array(shared, 0, RunningItems.BYTES);
  }

  has(number: number): boolean {
    return this.#flags[number % RunningItems.BYTES] === 1;
  }

  add(number: number): void {
    this.#flags[number % RunningItems.BYTES] = 1;
  }

  delete(number: number): void {
    this.#flags[number % RunningItems.BYTES] = 0;
  }

  clear(): void {
    this.#flags.fill(0);
  }
}
