/**
 * The protocol between fronts and the engine process: frames on a Unix stream socket, in the byte
 * order of the machine. `FrameBlocks` and `Outbox` write frames, `FrameReader` reads them.
 *
 * The length of a frame is a multiple of 8 bytes, so that readers need no copy of its numbers and tensors. Words have
 * 32 bits. The first word is the length in units of 8 bytes. The second word has the kind in bits 0 to 7, flags from bit
 * 8 on, and the count `ahead` of an item from bit 16 on. The rest depends on the kind:
 *
 * | kind | from | words |
 * |---|---|---|
 * | submit | front | item number, lane number (of its prediction), free sizes; then tensors: `tensor-frames.ts` |
 * | cancel | front | count, item numbers |
 * | share | front | process id, descriptor of shared memory (machine/processes/shared-memory.ts), which begins with `RunningItems` |
 * | hello | engine | length of a JSON text in bytes, 0; then the text |
 * | dispatched | engine | count, microseconds since the batch started, item numbers; not sent for most batches of less than a millisecond |
 * | finished | engine | item count, batch size and cause, wait and run ms (float64), item numbers, sizes; rows. Only one front gets size, cause and wait |
 * | part | engine | as `finished`: rows of partial outputs |
 * | failed | engine | length of a JSON text in bytes, 0; then the text |
 * | shared | engine | the shared memory is mapped |
 */
import { z } from "zod";
import { ALIGNMENT, aligned, memoryOver, type TensorMemory } from "../../author/tensor-memory.ts";
import { Fifo } from "../../base/collections/fifo.ts";
import { errorCodes } from "../../base/errors.ts";

export const frameKinds = {
  submit: 1,
  cancel: 2,
  hello: 3,
  dispatched: 4,
  finished: 5,
  failed: 6,
  share: 7,
  shared: 8,
  part: 9,
} as const;

export const HEADER_BYTES = 8;
export const KIND_MASK = 0xff;
/** Flag of `submit` and `dispatched`: the item runs alone in its batch. */
export const IS_ALONE = 0x100;
/** Flag of `submit`: the item shares a batch only with other separate items. */
export const IS_SEPARATE = 0x200;
/** Flag of `submit`: the tensors lie in shared memory, and the frame has their offset. */
export const IS_SHARED = 0x400;

/** First bit of the count `ahead` in the second word of `submit`. */
export const AHEAD_SHIFT = 16;
export const MAX_AHEAD = 2 ** 16 - 1;

/** Memory with frames. Views of it keep it alive. */
export interface FrameMemory {
  readonly buffer: ArrayBuffer;
  /** Start in `buffer`; a multiple of 8. */
  readonly byteOffset: number;
  readonly words: Uint32Array;
}

export function frameMemory(buffer: ArrayBuffer, byteOffset: number, byteLength: number): FrameMemory {
  return { buffer, byteOffset, words: new Uint32Array(buffer, byteOffset, Math.floor(byteLength / 4)) };
}

/** Properties of the engine after warm-up. A front gets them when it connects. */
export const engineInfoSchema = z.object({
  maxBatchSize: z.int(),
  /** Count of instances on all devices together. */
  instances: z.int(),
  /** `cpu`, or one or more `cuda:N`. */
  devices: z.array(z.string()).readonly(),
  torch: z.string(),
  pid: z.int(),
});

export type EngineInfo = z.infer<typeof engineInfoSchema>;

export const failureSchema = z.object({
  number: z.int(),
  code: z.enum(errorCodes),
  message: z.string(),
  clientMessage: z.string().optional(),
  field: z.union([z.string(), z.array(z.union([z.string(), z.number()])).readonly()]).optional(),
  /** Lines of the author's code in the stack trace. */
  stack: z.string().optional(),
});

/** Parses the JSON text of a `hello` or `failed` frame. */
export function jsonAt({ buffer, byteOffset, words }: FrameMemory, at: number): unknown {
  const bytes = new Uint8Array(buffer, byteOffset + at + 16, words[at / 4 + 2] ?? 0);
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Handles a frame at the byte offset `at` of `memory`. The handler may keep the memory. */
export type FrameHandler = (memory: FrameMemory, at: number) => void;

/**
 * Extracts frames from the chunks of a socket. If the handler fails, the reader reports the error and goes on with the
 * next frame.
 */
export class FrameReader {
  readonly #handler: FrameHandler;
  readonly #report: (error: unknown) => void;
  /** A frame of which a part has arrived: the header, then memory for the whole frame. */
  #partial: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;

  /** @param report receives errors of the handler; by default they are uncaught exceptions */
  constructor(handler: FrameHandler, report: (error: unknown) => void = throwLater) {
    this.#handler = handler;
    this.#report = report;
  }

  /**
   * Handles all complete frames in a chunk. @param chunk not copied, except for a frame that continues in the next
   * chunk
   */
  push(chunk: Uint8Array): void {
    let begin = 0;
    while (this.#partial !== undefined && begin < chunk.length) begin += this.#fill(this.#partial, chunk, begin);
    if (begin === chunk.length) return;
    const rest = placed(chunk, begin);
    const memory = frameMemory(rest.buffer, rest.byteOffset, rest.length);
    let at = 0;
    while (rest.length - at >= HEADER_BYTES) {
      const bytes = lengthOf(memory.words[at / 4]);
      if (bytes > rest.length - at) break;
      this.#handle(memory, at);
      at += bytes;
    }
    if (at === rest.length) return;
    let copied = at;
    this.#partial = new Uint8Array(HEADER_BYTES);
    this.#filled = 0;
    while (copied < rest.length) copied += this.#fill(this.#partial, rest, copied);
  }

  #fill(partial: Uint8Array<ArrayBuffer>, from: Uint8Array, begin: number): number {
    const end = Math.min(from.length, begin + partial.length - this.#filled);
    partial.set(from.subarray(begin, end), this.#filled);
    this.#filled += end - begin;
    if (this.#filled === partial.length) this.#filledUp(partial);
    return end - begin;
  }

  #filledUp(partial: Uint8Array<ArrayBuffer>): void {
    const memory = frameMemory(partial.buffer, 0, partial.length);
    const bytes = lengthOf(memory.words[0]);
    if (partial.length < bytes) {
      // Needs no zeros: every byte is written before the frame is read.
      const whole = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
      whole.set(partial);
      this.#partial = whole;
    } else {
      this.#partial = undefined;
      this.#handle(memory, 0);
    }
  }

  #handle(memory: FrameMemory, at: number): void {
    try {
      this.#handler(memory, at);
    } catch (error) {
      this.#report(error);
    }
  }
}

function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

/**
 * The bytes from `begin` on: a view at a multiple of 8 bytes, otherwise a copy. Copies are rare, because frames have
 * multiples of 8 bytes.
 */
function placed(chunk: Uint8Array, begin: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, length } = chunk;
  if (buffer instanceof ArrayBuffer && (byteOffset + begin) % ALIGNMENT === 0) {
    return new Uint8Array(buffer, byteOffset + begin, length - begin);
  }
  return new Uint8Array(chunk.subarray(begin));
}

/** @throws Error, which ends the process, because the position of the next frame is unknown */
function lengthOf(units = 0): number {
  if (units === 0) throw new Error("the engine's socket gave no frame");
  return units * ALIGNMENT;
}

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

/** The connection between a front and the engine: a socket, or a pair of functions within one process. */
export interface Wire {
  /**
   * Writes bytes. @returns count of accepted bytes: less than `byteLength` for a full socket, negative for a closed one
   */
  write(bytes: Uint8Array, byteOffset: number, byteLength: number): number;
  end(): void;
}

/** Receives the events of a wire. */
export interface WireEnd {
  data(chunk: Uint8Array): void;
  /** The wire accepts bytes again. */
  drain(): void;
  close(): void;
}

interface Range {
  readonly bytes: Uint8Array;
  from: number;
  to: number;
}

/**
 * Bytes that wait to be written to a socket. A write has all frames of a turn of the event loop, after the bytes that
 * did not fit into the socket before.
 */
export class Outbox {
  readonly #socket: Pick<Wire, "write">;
  readonly #ranges = new Fifo<Range>();
  #last: Range | undefined;
  #waitingBytes = 0;
  #isFull = false;
  #isFlushScheduled = false;
  readonly #scheduled = () => {
    this.#isFlushScheduled = false;
    this.flush();
  };

  constructor(socket: Pick<Wire, "write">) {
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
