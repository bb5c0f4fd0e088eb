/** Reusable memory for frames that a socket will send. */
import { ALIGNMENT, aligned, type TensorMemory, tensorMemory } from "../../author/tensor-memory.ts";

/** Size in bytes of a block that several frames share. */
export const BLOCK_BYTES = 2 ** 16;
/** A frame with more bytes gets a block for itself. */
const MAX_SHARED_BYTES = BLOCK_BYTES / 4;
/** Most bytes that unused blocks may keep. */
const MAX_FREE_BYTES = 32 * 2 ** 20;

export interface Block {
  readonly memory: TensorMemory;
  end: number;
  /** Number of users of the block: frames, writes to the socket, and `FrameBlocks` for its current block. */
  holders: number;
}

export class FrameBlocks {
  readonly #free = new Map<number, Block[]>();
  #freeBytes = 0;
  #shared: Block;

  constructor() {
    this.#shared = this.#newBlock(BLOCK_BYTES);
    this.#shared.holders = 1;
  }

  /**
   * A block with room for a frame. The caller writes at `end`, and moves it. Each user of the frame increments
   * `holders`, and later calls `release`.
   */
  withRoomFor(bytes: number): Block {
    if (bytes > MAX_SHARED_BYTES) return this.#newBlock(Math.max(BLOCK_BYTES, 2 ** Math.ceil(Math.log2(bytes))));
    if (this.#shared.end + bytes > BLOCK_BYTES) {
      const full = this.#shared;
      this.#shared = this.#newBlock(BLOCK_BYTES);
      this.#shared.holders = 1;
      this.release(full);
    }
    return this.#shared;
  }

  release(block: Block): void {
    block.holders -= 1;
    if (block.holders > 0) return;
    const size = block.memory.bytes.length;
    if (this.#freeBytes + size > MAX_FREE_BYTES) return;
    block.end = 0;
    this.#freeBytes += size;
    const free = this.#free.get(size);
    if (free === undefined) this.#free.set(size, [block]);
    else free.push(block);
  }

  #newBlock(size: number): Block {
    const free = this.#free.get(size)?.pop();
    if (free === undefined) return { memory: tensorMemory(size), end: 0, holders: 0 };
    this.#freeBytes -= size;
    return free;
  }
}

/**
 * Writes the header of a frame at the end of a block.
 * @param bytes length of the whole frame
 * @param bytesHere how many of the bytes are in this block; the others follow from other memory
 * @returns index of the frame's first 32-bit word
 */
export function beginFrame(block: Block, bytes: number, kind: number, bytesHere = bytes): number {
  const { words } = block.memory;
  const word = block.end / 4;
  words[word] = bytes / ALIGNMENT;
  words[word + 1] = kind;
  block.end += bytesHere;
  return word;
}

/** A frame that was just written: the bytes of `block` from `from` to `block.end`. */
export interface Frame {
  readonly block: Block;
  readonly from: number;
}

export function wordsFrame(blocks: FrameBlocks, kind: number, content: readonly number[]): Frame {
  const bytes = aligned(8 + 4 * content.length);
  const block = blocks.withRoomFor(bytes);
  const from = block.end;
  block.memory.words.set(content, beginFrame(block, bytes, kind) + 2);
  return { block, from };
}

/** A frame with a count and as many item numbers. */
export function numbersFrame(blocks: FrameBlocks, kind: number, numbers: readonly number[]): Frame {
  return wordsFrame(blocks, kind, [numbers.length, ...numbers]);
}

export function jsonFrame(blocks: FrameBlocks, kind: number, content: object): Frame {
  const text = new TextEncoder().encode(JSON.stringify(content));
  const bytes = aligned(16 + text.length);
  const block = blocks.withRoomFor(bytes);
  const from = block.end;
  const word = beginFrame(block, bytes, kind);
  block.memory.words[word + 2] = text.length;
  block.memory.bytes.set(text, from + 16);
  return { block, from };
}
