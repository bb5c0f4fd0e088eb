/** Samples the private memory of a server's processes. */
import { readFileSync } from "node:fs";

/** Milliseconds between two samples. Reading one takes the kernel about a millisecond for each process. */
const SAMPLE_MS = 20;

export class MemoryMeter implements Disposable {
  readonly #pids: readonly number[];
  readonly #timer: ReturnType<typeof setInterval>;
  #peak = 0;

  constructor(pids: readonly number[]) {
    this.#pids = pids;
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
  }

  /** Bytes of all processes now: memory without a file behind it, and shared memory, which counts once. */
  sample(): number {
    const bytes = this.#pids.reduce((sum, pid) => sum + ownBytes(pid), 0);
    this.#peak = Math.max(this.#peak, bytes);
    return bytes;
  }

  /** The largest sample since the last call. */
  takePeak(): number {
    const peak = Math.max(this.#peak, this.sample());
    this.#peak = 0;
    return peak;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Bytes of one process; 0 if it has ended. */
function ownBytes(pid: number): number {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    const kilobytes = [...rollup.matchAll(/^Pss_(?:Anon|Shmem):\s+(\d+) kB$/gm)].map((match) => Number(match[1]));
    return 1024 * kilobytes.reduce((sum, each) => sum + each, 0);
  } catch {
    return 0;
  }
}
