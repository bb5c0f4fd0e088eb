/** Writes frames into memory, and sends them through a socket. */
import { ALIGNMENT, aligned, memoryOver, type TensorMemory } from "../../author/tensor-memory.ts";
import { Fifo } from "../../base/collections/fifo.ts";

/** Size in bytes of a block that several frames share. A larger frame gets a block for itself. */
export const BLOCK_BYTES = 2 ** 16;

/** A frame: the bytes of `memory` from `from` to `to`. The rest of a longer frame follows from other memory. */
export interface Frame {
  readonly memory: TensorMemory;
  readonly from: number;
  readonly to: number;
}

/** Memory of new frames. A block is freed with its last frame. */
export class FrameBlocks {
  #memory = newMemory(BLOCK_BYTES);
  #end = 0;

  /**
   * Begins a frame, and writes its header.
   * @param bytes length of the whole frame
   * @param bytesHere how many of the bytes are in this memory
   */
  begin(bytes: number, kind: number, bytesHere = bytes): Frame {
    if (bytesHere > BLOCK_BYTES) return header({ memory: newMemory(bytesHere), from: 0, to: bytesHere }, bytes, kind);
    if (this.#end + bytesHere > BLOCK_BYTES) {
      this.#memory = newMemory(BLOCK_BYTES);
      this.#end = 0;
    }
    const from = this.#end;
    this.#end += bytesHere;
    return header({ memory: this.#memory, from, to: this.#end }, bytes, kind);
  }

  words(kind: number, content: readonly number[]): Frame {
    const frame = this.begin(aligned(8 + 4 * content.length), kind);
    frame.memory.words.set(content, frame.from / 4 + 2);
    return frame;
  }

  /** A frame with a count and as many item numbers. */
  numbers(kind: number, numbers: readonly number[]): Frame {
    return this.words(kind, [numbers.length, ...numbers]);
  }

  json(kind: number, content: object): Frame {
    const text = new TextEncoder().encode(JSON.stringify(content));
    const frame = this.begin(aligned(16 + text.length), kind);
    const { memory, from } = frame;
    memory.words[from / 4 + 2] = text.length;
    memory.bytes.set(text, from + 16);
    return frame;
  }
}

/** Memory without zeros: every byte of a frame is written before it is sent. */
function newMemory(bytes: number): TensorMemory {
  return memoryOver(Buffer.allocUnsafeSlow(bytes).buffer);
}

function header(frame: Frame, bytes: number, kind: number): Frame {
  const { words } = frame.memory;
  words[frame.from / 4] = bytes / ALIGNMENT;
  words[frame.from / 4 + 1] = kind;
  return frame;
}

export interface Writable {
  /**
   * Writes bytes to the socket. @returns count of accepted bytes: less than `byteLength` for a full socket, negative
   * for a closed one
   */
  write(bytes: Uint8Array, byteOffset: number, byteLength: number): number;
}

interface Range {
  readonly bytes: Uint8Array;
  from: number;
  to: number;
}

/**
 * Bytes that wait to be written to a socket. One write has all frames of a turn of the event loop, and the bytes that
 * did not fit into the socket before.
 */
export class Outbox {
  readonly #socket: Writable;
  readonly #ranges = new Fifo<Range>();
  #last: Range | undefined;
  #waitingBytes = 0;
  #isFull = false;
  #isFlushScheduled = false;
  readonly #scheduled = () => {
    this.#isFlushScheduled = false;
    this.flush();
  };

  constructor(socket: Writable) {
    this.#socket = socket;
  }

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  /** Adds a frame. `flush` and `flushSoon` write it; from 64 KiB on all is written at once. */
  add({ memory: { bytes }, from, to }: Frame): void {
    if (this.#last?.bytes === bytes && this.#last.to === from) {
      this.#last.to = to;
      this.#waitingBytes += to - from;
    } else this.#push({ bytes, from, to });
    if (this.#waitingBytes >= BLOCK_BYTES) this.flush();
  }

  /** Adds bytes that the caller no longer changes. */
  addBytes(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#push({ bytes, from: 0, to: bytes.length });
  }

  flush(): void {
    while (!this.#isFull) {
      const next = this.#ranges.first;
      if (next === undefined) return;
      const length = next.to - next.from;
      const written = this.#socket.write(next.bytes, next.from, length);
      if (written > 0) this.#waitingBytes -= written;
      if (written < length) {
        next.from += Math.max(0, written);
        this.#isFull = true;
        return;
      }
      this.#ranges.shift();
      if (this.#last === next) this.#last = undefined;
    }
  }

  flushSoon(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setImmediate(this.#scheduled);
  }

  /** Writes again after the socket has room. */
  drained(): void {
    this.#isFull = false;
    this.flush();
  }

  /** Drops all bytes, because the socket is closed. */
  drop(): void {
    this.#isFull = true;
    while (this.#ranges.shift() !== undefined);
    this.#last = undefined;
  }

  #push(range: Range): void {
    this.#ranges.push(range);
    this.#last = range;
    this.#waitingBytes += range.to - range.from;
  }
}
