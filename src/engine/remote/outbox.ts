/** What is still to be written to a socket: frames of one turn of the event loop go out together, and what a full socket leaves is kept. */
import { Fifo } from "../../base/collections/fifo.ts";
import { BLOCK_BYTES, type Block, type FrameBlocks } from "./frame-blocks.ts";

/** The part of a socket that is needed here. */
export interface Writable {
  /** @returns how many bytes it took; fewer when it is full, and below 0 when it is closed */
  write(bytes: Uint8Array, byteOffset: number, byteLength: number): number;
}

/** Bytes side by side. */
interface Stretch {
  readonly bytes: Uint8Array;
  from: number;
  to: number;
  /** Held until the bytes are written. */
  readonly block: Block | undefined;
}

export class Outbox {
  readonly #socket: Writable;
  readonly #blocks: FrameBlocks;
  readonly #stretches = new Fifo<Stretch>();
  #last: Stretch | undefined;
  #waitingBytes = 0;
  #isFull = false;
  #isFlushScheduled = false;
  readonly #scheduled = () => {
    this.#isFlushScheduled = false;
    this.flush();
  };

  constructor(socket: Writable, blocks: FrameBlocks) {
    this.#socket = socket;
    this.#blocks = blocks;
  }

  /** Whether the socket has all of it. */
  get isEmpty(): boolean {
    return this.#stretches.length === 0;
  }

  /** Adds the bytes of a block from `from` up to `to`. They go out with `flush` or `flushSoon`, or before when there are many. */
  add(block: Block, from: number, to: number): void {
    const { bytes } = block.memory;
    if (this.#last?.bytes === bytes && this.#last.to === from) {
      this.#last.to = to;
      this.#waitingBytes += to - from;
    } else {
      block.holders += 1;
      this.#push({ bytes, from, to, block });
    }
    if (this.#waitingBytes >= BLOCK_BYTES) this.flush();
  }

  /** Adds bytes that nobody writes to again. */
  addBytes(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#push({ bytes, from: 0, to: bytes.length, block: undefined });
  }

  /** Writes as much as the socket takes. */
  flush(): void {
    while (!this.#isFull) {
      const next = this.#stretches.first;
      if (next === undefined) return;
      const length = next.to - next.from;
      const written = this.#socket.write(next.bytes, next.from, length);
      if (written > 0) this.#waitingBytes -= written;
      if (written < length) {
        next.from += Math.max(0, written);
        this.#isFull = true;
        return;
      }
      this.#stretches.shift();
      if (this.#last === next) this.#last = undefined;
      if (next.block !== undefined) this.#blocks.release(next.block);
    }
  }

  /** Writes once the event loop turns: with all that is added until then. */
  flushSoon(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setImmediate(this.#scheduled);
  }

  /** The socket takes more. */
  drained(): void {
    this.#isFull = false;
    this.flush();
  }

  /** Forgets all that was not written: the socket is closed. */
  drop(): void {
    this.#isFull = true;
    for (const { block } of this.#stretches.rest()) if (block !== undefined) this.#blocks.release(block);
    while (this.#stretches.shift() !== undefined);
    this.#last = undefined;
  }

  #push(stretch: Stretch): void {
    this.#stretches.push(stretch);
    this.#last = stretch;
    this.#waitingBytes += stretch.to - stretch.from;
  }
}
