/** Numbers that all processes of one server see: a row for each process, in memory that they share. */
import { writeFileSync } from "node:fs";

/** Numbers of different processes lie in different cache lines. */
const LINE_BYTES = 64;
const NUMBER_BYTES = Float64Array.BYTES_PER_ELEMENT;

export interface SharedCountersOptions<N extends string> {
  /** In the server's run folder. */
  readonly path: string;
  /** The same in every process. */
  readonly names: readonly N[];
  /** How many processes there are. */
  readonly rows: number;
}

/** One number of each process. */
export interface SharedCounter {
  /** Of this process. */
  readonly own: number;
  /** Over all processes; each part is as new as the processor makes it. */
  sum(): number;
  add(amount: number): void;
  set(value: number): void;
}

export class SharedCounters<N extends string> {
  readonly #options: SharedCountersOptions<N>;
  readonly #numbers: Float64Array;
  /** Numbers from one row to the next. */
  readonly #stride: number;

  /** Makes the file, all zeros; before any process opens it. */
  static create<N extends string>(options: SharedCountersOptions<N>): SharedCounters<N> {
    // Written, not only made longer: a full disk is told now, and not by a signal later.
    writeFileSync(options.path, new Uint8Array(strideOf(options.names) * NUMBER_BYTES * options.rows), {
      mode: 0o600,
      flag: "wx",
    });
    return new SharedCounters(options);
  }

  /** Opens the file that another process has made. */
  constructor(options: SharedCountersOptions<N>) {
    this.#options = options;
    this.#stride = strideOf(options.names);
    const bytes = Bun.mmap(options.path, { shared: true });
    this.#numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / NUMBER_BYTES);
    if (this.#numbers.length !== this.#stride * options.rows) {
      throw new RangeError(`${options.path} has not ${options.rows} rows of ${options.names.length} numbers`);
    }
  }

  /** @param row of this process, which alone writes it */
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

  /** The numbers of one process as they lie there, in the order of the names. */
  row(row: number): Float64Array {
    return this.#numbers.subarray(row * this.#stride, (row + 1) * this.#stride);
  }

  /** Takes out what a process that has ended had counted. */
  clear(row: number): void {
    this.#numbers.fill(0, row * this.#stride, (row + 1) * this.#stride);
  }
}

function strideOf(names: readonly string[]): number {
  return (Math.ceil((names.length * NUMBER_BYTES) / LINE_BYTES) * LINE_BYTES) / NUMBER_BYTES;
}
