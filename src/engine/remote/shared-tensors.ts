/**
 * Memory that a front shares with the engine process. A large tensor is copied into it once, and does not pass
 * through the socket.
 */
import { closeSync, ftruncateSync } from "node:fs";
import { memoryOver, type TensorMemory } from "../../author/tensor-memory.ts";
import { messageOf } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { createMemoryFile } from "../../base/native-file.ts";

/** Size of the shared memory. Only written pages need real memory; tensors that do not fit go through the socket. */
const SHARED_BYTES = 32 * 2 ** 20;

/** Larger tensors go through the shared memory, and get ranges of at least this size. */
export const MIN_SHARED_BYTES = 2 ** 10;

/** A range of the shared memory for an item's tensors. */
export interface SharedPlace {
  readonly memory: TensorMemory;
  readonly at: number;
  readonly bytes: number;
}

export class SharedTensors implements Disposable {
  #descriptor: number | undefined;
  #memory: TensorMemory | undefined;
  #wasMade = false;
  /** Whether the engine process has opened the memory. */
  isOpen = false;
  /** Free ranges, by their size in bytes, a power of two. */
  readonly #free = new Map<number, SharedPlace[]>();
  #end = 0;

  get descriptor(): number | undefined {
    return this.#descriptor;
  }

  /** Creates the memory at the first call. @returns whether the engine process must map new memory */
  make(): boolean {
    if (this.#wasMade || process.platform !== "linux") return false;
    this.#wasMade = true;
    try {
      const descriptor = createMemoryFile();
      ftruncateSync(descriptor, SHARED_BYTES);
      this.#descriptor = descriptor;
      this.#memory = memoryOver(openShared(process.pid, descriptor));
      return true;
    } catch (error) {
      log.debug(`Large tensors go through the engine's socket: ${messageOf(error)}`);
      return false;
    }
  }

  /** Takes a free range of at least `bytes` bytes. @returns undefined if none is free */
  take(bytes: number): SharedPlace | undefined {
    const memory = this.#memory;
    if (!this.isOpen || memory === undefined) return undefined;
    const size = Math.max(MIN_SHARED_BYTES, 2 ** Math.ceil(Math.log2(bytes)));
    const free = this.#free.get(size)?.pop();
    if (free !== undefined || this.#end + size > SHARED_BYTES) return free;
    this.#end += size;
    return { memory, at: this.#end - size, bytes: size };
  }

  release(place: SharedPlace): void {
    const free = this.#free.get(place.bytes);
    if (free === undefined) this.#free.set(place.bytes, [place]);
    else free.push(place);
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
    this.isOpen = false;
  }
}

/** Maps the shared memory of a running process, by its process id and file descriptor. */
export function openShared(pid: number, descriptor: number): ArrayBuffer {
  const bytes = Bun.mmap(`/proc/${pid}/fd/${descriptor}`, { shared: true });
  if (bytes.byteOffset !== 0) throw new RangeError("a file is not mapped from its beginning");
  return bytes.buffer;
}
