/**
 * How fronts and the engine process speak: flat frames on a Unix stream socket, in the byte order of the machine that both run on.
 *
 * A frame is a whole number of 8 bytes long, so that numbers and tensors in it are read where they lie. Its first word has its length in units
 * of 8 bytes, the second its kind and, above 8 bits, flags. Words have 32 bits. What follows, by kind:
 *
 * | kind | from | words |
 * |---|---|---|
 * | submit | front | item number, lane number, sizes of the dimensions that are not fixed; then tensors: `item-frame.ts` |
 * | cancel | front | lane number |
 * | hurry | front | |
 * | share | front | process id, descriptor of shared memory: `shared-tensors.ts` |
 * | hello | engine | length of a JSON text in bytes, 0; then the text |
 * | dispatched | engine | count, item numbers |
 * | finished | engine | item count, batch size and cause, wait and run in ms (float64), item numbers, sizes; then rows: `rows-frame.ts` |
 * | failed | engine | length of a JSON text in bytes, 0; then the text |
 * | shared | engine | it has mapped that memory |
 * | canceled | engine | lane number: nothing of it is read any more |
 */
import { z } from "zod";
import { errorCodes } from "../../base/errors.ts";

export const frameKinds = {
  submit: 1,
  cancel: 2,
  hurry: 3,
  hello: 4,
  dispatched: 5,
  finished: 6,
  failed: 7,
  share: 8,
  shared: 9,
  canceled: 10,
} as const;

export const HEADER_BYTES = 8;
export const KIND_MASK = 0xff;
/** Flag of `submit` and `dispatched`: the item is run with no other beside it. */
export const IS_ALONE = 0x100;
/** Flag of `submit`: the item goes behind those of other clients. */
export const IS_LATE = 0x200;
/** Flag of `submit`: in the place of the tensors is where they lie in the shared memory. */
export const IS_SHARED = 0x400;

/** Where a frame lies. It stays there for as long as anything refers to the memory. */
export interface FrameMemory {
  readonly buffer: ArrayBuffer;
  /** Where in `buffer` the memory begins; 8 divides it. */
  readonly byteOffset: number;
  readonly words: Uint32Array;
}

export function frameMemory(buffer: ArrayBuffer, byteOffset: number, byteLength: number): FrameMemory {
  return { buffer, byteOffset, words: new Uint32Array(buffer, byteOffset, Math.floor(byteLength / 4)) };
}

/** A number of 64 bits in a frame. */
export function doubleAt({ buffer, byteOffset }: FrameMemory, at: number): number {
  return new Float64Array(buffer, byteOffset + at, 1)[0] ?? 0;
}

/** How a model runs, as warm-up has found it; what an engine process says of itself to a front that connects. */
export const engineInfoSchema = z.object({
  maxBatchSize: z.int(),
  /** Over all devices. */
  instances: z.int(),
  /** `cpu`, or one or more `cuda:N`. */
  devices: z.array(z.string()).readonly(),
  /** The version of its libtorch. */
  torch: z.string(),
  /** Of the process that runs it. */
  pid: z.int(),
  threads: z.int(),
  /** Of one instance. */
  packedLayers: z.int(),
  /** Milliseconds of a forward pass by batch size, measured at warm-up. */
  forwardMs: z.array(z.tuple([z.int(), z.number()]).readonly()).readonly(),
});

export type EngineInfo = z.infer<typeof engineInfoSchema>;

/** An item's failure. */
export const failureSchema = z.object({
  number: z.int(),
  code: z.enum(errorCodes),
  message: z.string(),
  /** The line of the author's code. */
  at: z.string().optional(),
});

/** The text of a `hello` or `failed` frame. */
export function jsonAt({ buffer, byteOffset, words }: FrameMemory, at: number): unknown {
  const bytes = new Uint8Array(buffer, byteOffset + at + 16, words[at / 4 + 2] ?? 0);
  return JSON.parse(new TextDecoder().decode(bytes));
}
