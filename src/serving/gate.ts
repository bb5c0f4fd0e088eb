/** Lets only so many tasks run at the same time, and none while there is no room for what they bring; first come, first served. */

export interface Gate {
  run<T>(task: () => Promise<T>): Promise<T>;
}

/** For where nothing is to be limited. */
export const openGate: Gate = { run: (task) => task() };

export interface GateOptions {
  readonly maxRunning: number;
  readonly hasRoom: () => boolean;
}

export class LimitedGate implements Gate {
  readonly #options: GateOptions;
  /** Those that wait; the ones before `#head` have gone. */
  #waiting: (() => void)[] = [];
  #head = 0;
  #running = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.open();
    });
    try {
      return await task();
    } finally {
      this.#running -= 1;
      this.open();
    }
  }

  /** Lets in whom there is room for; to be called when there may be more of it. */
  open(): void {
    // Mostly nobody waits, and then there is no need to know whether there is room.
    while (this.#head < this.#waiting.length) {
      if (this.#running >= this.#options.maxRunning || !this.#options.hasRoom()) return;
      this.#running += 1;
      this.#waiting[this.#head++]?.();
    }
    if (this.#head === 0) return;
    this.#waiting = [];
    this.#head = 0;
  }
}
