/** Counters in shared memory, with a row of numbers for each process of a server. */
import { writeFileSync } from "node:fs";

/**
 * Size of a processor's cache line. Each row begins at a new cache line, so that processes do not slow each other down.
 */
const LINE_BYTES = 64;
const NUMBER_BYTES = Float64Array.BYTES_PER_ELEMENT;

export interface SharedCountersOptions<N extends string> {
  /** Path of the file with the counters, in the server's run folder. */
  readonly path: string;
  /** Names of the counters, equal in all processes. */
  readonly names: readonly N[];
  /** Number of processes. */
  readonly rows: number;
}

/** A counter with a number for each process. */
export interface SharedCounter {
  /** The number of this process. */
  readonly own: number;
  /** Sum over all processes. Memory is read without a lock, so recent additions may be missing. */
  sum(): number;
  add(amount: number): void;
  set(value: number): void;
}

export class SharedCounters<N extends string> {
  readonly #options: SharedCountersOptions<N>;
  readonly #numbers: Float64Array;
  /** Count of numbers from the start of one row to the next. */
  readonly #stride: number;

  /** Creates the file with zeros. Must run before any process opens the file. */
  static create<N extends string>(options: SharedCountersOptions<N>): SharedCounters<N> {
    // Writes zeros to disk: with a sparse file, a full disk would raise a signal later.
    writeFileSync(options.path, new Uint8Array(strideOf(options.names) * NUMBER_BYTES * options.rows), {
      mode: 0o600,
      flag: "wx",
    });
    return new SharedCounters(options);
  }

  /** Opens the file that `create` has made. */
  constructor(options: SharedCountersOptions<N>) {
    this.#options = options;
    this.#stride = strideOf(options.names);
    const bytes = Bun.mmap(options.path, { shared: true });
    this.#numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / NUMBER_BYTES);
    if (this.#numbers.length !== this.#stride * options.rows) {
      throw new RangeError(`${options.path} has not ${options.rows} rows of ${options.names.length} numbers`);
    }
  }

  /** A counter for one process. @param row row of this process, which alone writes to it */
  counter(name: N, row: number): SharedCounter {
    const numbers = this.#numbers;
    const stride = this.#stride;
    const first = this.#options.names.indexOf(name);
    if (row < 0 || row >= this.#options.rows) throw new RangeError(`there is no row ${row}`);
    const at = row * stride + first;
    return {
      get own() {
        return numbers[at] ?? 0;
      },
      sum() {
        let sum = 0;
        for (let i = first; i < numbers.length; i += stride) sum += numbers[i] ?? 0;
        return sum;
      },
      add(amount) {
        numbers[at] = (numbers[at] ?? 0) + amount;
      },
      set(value) {
        numbers[at] = value;
      },
    };
  }

  /** A view of the numbers of one process, in the order of the names. */
  row(row: number): Float64Array {
    return this.#numbers.subarray(row * this.#stride, (row + 1) * this.#stride);
  }

  /** Zeroes the row of an ended process. */
  clear(row: number): void {
    this.#numbers.fill(0, row * this.#stride, (row + 1) * this.#stride);
  }
}

function strideOf(names: readonly string[]): number {
  return (Math.ceil((names.length * NUMBER_BYTES) / LINE_BYTES) * LINE_BYTES) / NUMBER_BYTES;
}
