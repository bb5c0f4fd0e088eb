/** Memory that a process shares with another process. A large message is copied into it once, and needs no socket. */
import { closeSync, ftruncateSync } from "node:fs";
import { createMemoryFile } from "../../base/native-file.ts";

/** Size of the memory for messages. Only written pages need real memory. */
const SHARED_BYTES = 32 * 2 ** 20;
const MIN_RANGE_BYTES = 2 ** 10;

/** A range of the memory, for one message. */
export interface SharedRange {
  readonly at: number;
  readonly bytes: number;
}

export class SharedMemory implements Disposable {
  /** Descriptor of the file in memory. The other process opens it by this number and the process id. */
  readonly descriptor = createMemoryFile();
  readonly buffer: ArrayBuffer;
  /** Free ranges, by their size in bytes, a power of two. */
  readonly #free = new Map<number, SharedRange[]>();
  #end: number;
  readonly #bytes: number;

  /**
   * @param reserved bytes at the beginning for the caller; `take` never returns them
   * @throws Error if the system has no files in memory
   */
  constructor(reserved: number) {
    this.#end = reserved;
    this.#bytes = reserved + SHARED_BYTES;
    ftruncateSync(this.descriptor, this.#bytes);
    this.buffer = openShared(process.pid, this.descriptor);
  }

  /** Takes a free range of at least `bytes` bytes. @returns undefined if none is free */
  take(bytes: number): SharedRange | undefined {
    const size = Math.max(MIN_RANGE_BYTES, 2 ** Math.ceil(Math.log2(bytes)));
    const free = this.#free.get(size)?.pop();
    if (free !== undefined || this.#end + size > this.#bytes) return free;
    this.#end += size;
    return { at: this.#end - size, bytes: size };
  }

  release(range: SharedRange): void {
    const free = this.#free.get(range.bytes);
    if (free === undefined) this.#free.set(range.bytes, [range]);
    else free.push(range);
  }

  [Symbol.dispose](): void {
    closeSync(this.descriptor);
  }
}

/** Maps the shared memory of a running process, by its process id and file descriptor. */
export function openShared(pid: number, descriptor: number): ArrayBuffer {
  const bytes = Bun.mmap(`/proc/${pid}/fd/${descriptor}`, { shared: true });
  if (bytes.byteOffset !== 0) throw new RangeError("a file is not mapped from its beginning");
  return bytes.buffer;
}
