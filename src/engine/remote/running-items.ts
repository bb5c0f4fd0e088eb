/**
 * The numbers of items in running batches, in memory that a front shares with the engine process. If the process
 * crashes, the front reads there which items may be the cause, also of a batch that no frame has announced.
 */
export class RunningItems {
  static readonly BYTES = 2 ** 16;
  /** One byte for each number modulo the length: 1 while an item with this number runs. */
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
