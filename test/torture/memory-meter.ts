/** How much memory the processes of a server have of their own, sampled. */
import { readFileSync } from "node:fs";

/** Time between two samples; reading one takes the kernel about a millisecond for each process. */
const SAMPLE_MS = 20;

export class MemoryMeter implements Disposable {
  readonly #pids: readonly number[];
  readonly #timer: ReturnType<typeof setInterval>;
  #peak = 0;

  constructor(pids: readonly number[]) {
    this.#pids = pids;
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
  }

  /** Bytes now, of all of them: memory that no file backs, shared memory once for all who share it. */
  sample(): number {
    const bytes = this.#pids.reduce((sum, pid) => sum + ownBytes(pid), 0);
    this.#peak = Math.max(this.#peak, bytes);
    return bytes;
  }

  /** The peak since the last call. */
  takePeak(): number {
    const peak = Math.max(this.#peak, this.sample());
    this.#peak = 0;
    return peak;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** 0 for a process that has ended. */
function ownBytes(pid: number): number {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    const kilobytes = [...rollup.matchAll(/^Pss_(?:Anon|Shmem):\s+(\d+) kB$/gm)].map((match) => Number(match[1]));
    return 1024 * kilobytes.reduce((sum, each) => sum + each, 0);
  } catch {
    return 0;
  }
}
