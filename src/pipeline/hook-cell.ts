/**
 * The running call of `preprocess` or `postprocess` in a front, in memory that the supervisor reads. If the call blocks
 * the front, the supervisor ends the process, and the cell has the input at fault.
 */
import { writeFileSync } from "node:fs";
import * as z from "../author/z.ts";

const hooks = ["preprocess", "postprocess"] as const;
export type ItemHook = (typeof hooks)[number];

export interface InputPlace {
  readonly predictionId: string;
  readonly index: number;
}

export const hookCall = z.object({ hook: z.enum(hooks), predictionId: z.string(), index: z.int() });
export type HookCall = z.infer<typeof hookCall>;

/** Layout of a record: a byte each for the state, the hook and the length of the id; the index from byte 4, the id from byte 8. */
const [STATE, HOOK, LENGTH, INDEX, ID] = [0, 1, 2, 4, 8];
const RECORD_BYTES = 264;

export class HookCell {
  readonly #bytes: Buffer;

  /** Creates the file, before any process opens it. */
  static create(path: string): HookCell {
    writeFileSync(path, new Uint8Array(RECORD_BYTES), { mode: 0o600, flag: "wx" });
    return new HookCell(path);
  }

  constructor(path: string) {
    const { buffer, byteOffset } = Bun.mmap(path, { shared: true });
    this.#bytes = Buffer.from(buffer, byteOffset, RECORD_BYTES);
  }

  begin(hook: ItemHook, { predictionId, index }: InputPlace): void {
    const bytes = this.#bytes;
    bytes[HOOK] = hooks.indexOf(hook);
    bytes[LENGTH] = bytes.write(predictionId, ID, "latin1");
    bytes.writeUInt32LE(index, INDEX);
    bytes[STATE] = 1;
  }

  end(): void {
    this.#bytes[STATE] = 0;
  }

  /** The running call; undefined if none runs. */
  get running(): HookCall | undefined {
    const bytes = this.#bytes;
    if (bytes[STATE] === 0) return undefined;
    return {
      hook: hooks[bytes[HOOK] ?? 0] ?? "preprocess",
      predictionId: bytes.toString("latin1", ID, ID + (bytes[LENGTH] ?? 0)),
      index: bytes.readUInt32LE(INDEX),
    };
  }
}
