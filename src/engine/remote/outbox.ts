/**
 * Bytes that wait to be written to a socket. One write has all frames of a turn of the event loop, and the bytes that
 * did not fit into the socket before.
 */
import { Fifo } from "../../base/collections/fifo.ts";
import { BLOCK_BYTES, type Block, type FrameBlocks } from "./frame-blocks.ts";

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
  /** The block that has the bytes; undefined for other memory. */
  readonly block: Block | undefined;
}

export class Outbox {
  readonly #socket: Writable;
  readonly #blocks: FrameBlocks;
  readonly #ranges = new Fifo<Range>();
  #last: Range | undefined;
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

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  /** Adds bytes of a block. `flush` and `flushSoon` write them; from 64 KiB on they are written at once. */
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

  /** Adds bytes that the caller no longer changes. */
  addBytes(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#push({ bytes, from: 0, to: bytes.length, block: undefined });
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
      if (next.block !== undefined) this.#blocks.release(next.block);
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

  /** Releases all blocks, because the socket is closed. */
  drop(): void {
    this.#isFull = true;
    for (const { block } of this.#ranges.rest()) if (block !== undefined) this.#blocks.release(block);
    while (this.#ranges.shift() !== undefined);
    this.#last = undefined;
  }

  #push(range: Range): void {
    this.#ranges.push(range);
    this.#last = range;
    this.#waitingBytes += range.to - range.from;
  }
}
