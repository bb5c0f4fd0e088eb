/** Memory in which frames are made: kept until nobody holds a frame in it, then used again. */
import { ALIGNMENT, aligned, type TensorMemory, tensorMemory } from "../../author/tensor-memory.ts";

/** Small frames share a block of this size. */
export const BLOCK_BYTES = 2 ** 16;
/** A frame of more has a block of its own. */
const MOST_SHARED_BYTES = BLOCK_BYTES / 4;
/** Most memory that is kept for later. */
const MOST_FREE_BYTES = 32 * 2 ** 20;

export interface Block {
  readonly memory: TensorMemory;
  /** Where the next frame begins. */
  end: number;
  /** How many frames and writes keep it from being used again, and one more while frames are still added. */
  holders: number;
}

export class FrameBlocks {
  /** By size, which is a power of two. */
  readonly #free = new Map<number, Block[]>();
  #freeBytes = 0;
  #shared: Block;

  constructor() {
    this.#shared = this.#newBlock(BLOCK_BYTES);
    this.#shared.holders = 1;
  }

  /** A block with room for a frame of so many bytes at its end. Whoever adds the frame moves the end, and holds the block while it needs it. */
  withRoomFor(bytes: number): Block {
    if (bytes > MOST_SHARED_BYTES) return this.#newBlock(Math.max(BLOCK_BYTES, 2 ** Math.ceil(Math.log2(bytes))));
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
    if (this.#freeBytes + size > MOST_FREE_BYTES) return;
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
 * Puts a frame's header at the end of a block.
 * @param bytesHere how many of the frame's bytes go into the block
 * @returns the place of its first word
 */
export function beginFrame(block: Block, bytes: number, kind: number, bytesHere = bytes): number {
  const { words } = block.memory;
  const word = block.end / 4;
  words[word] = bytes / ALIGNMENT;
  words[word + 1] = kind;
  block.end += bytesHere;
  return word;
}

/** A frame that was made at the end of a block. */
export interface Made {
  readonly block: Block;
  readonly from: number;
}

/** Makes a frame of whole numbers. */
export function wordsFrame(blocks: FrameBlocks, kind: number, content: readonly number[]): Made {
  const bytes = aligned(8 + 4 * content.length);
  const block = blocks.withRoomFor(bytes);
  const from = block.end;
  block.memory.words.set(content, beginFrame(block, bytes, kind) + 2);
  return { block, from };
}

/** Makes a frame that is a JSON text. */
export function jsonFrame(blocks: FrameBlocks, kind: number, content: object): Made {
  const text = new TextEncoder().encode(JSON.stringify(content));
  const bytes = aligned(16 + text.length);
  const block = blocks.withRoomFor(bytes);
  const from = block.end;
  const word = beginFrame(block, bytes, kind);
  block.memory.words[word + 2] = text.length;
  block.memory.bytes.set(text, from + 16);
  return { block, from };
}
