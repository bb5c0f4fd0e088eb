/**
 * Records running calls of `preprocess` and `postprocess` in a file. If a call blocks the HTTP process, the next
 * process reads which calls were running.
 */
import { writeFileSync } from "node:fs";

const hooks = ["preprocess", "postprocess"] as const;
export type ItemHook = (typeof hooks)[number];

export interface InputPlace {
  readonly predictionId: string;
  readonly index: number;
}

export interface RunningHook extends InputPlace {
  readonly hook: ItemHook;
}

/** Layout of a slot: a byte each for state, hook and length of the id; the index from byte 4, the id from byte 8. */
const SLOT_BYTES = 128;
const MAX_ID = 64;
const SLOTS = 512;
const states = { free: 0, synchronous: 1, awaited: 2, guilty: 3 } as const;

export class RunningHooks {
  /** Calls that blocked an earlier process. Their inputs fail without another call. */
  readonly guilty: readonly RunningHook[];
  /**
   * Calls that may have blocked the last process: its running synchronous calls, or else its pending promises. A single
   * one is also in `guilty`. Empty if the last process was not blocked.
   */
  readonly suspects: readonly RunningHook[];
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #free: number[] = [];

  /** Creates the file, before any process opens it. */
  static create(path: string): string {
    writeFileSync(path, new Uint8Array(SLOTS * SLOT_BYTES), { mode: 0o600, flag: "wx" });
    return path;
  }

  /** `wasHeld` tells whether the last process was ended because a call blocked it. */
  constructor(path: string, wasHeld: boolean) {
    this.#bytes = Bun.mmap(path, { shared: true });
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset);
    const slots = Array.from({ length: SLOTS }, (_, slot) => slot);
    const inState = (state: number) => slots.filter((slot) => this.#bytes[slot * SLOT_BYTES] === state);
    // A synchronous call has the thread for itself, so it must be the call that blocked the process.
    const running = inState(states.synchronous);
    const possible = running.length > 0 ? running : inState(states.awaited);
    const found = wasHeld ? possible : [];
    this.suspects = found.map((slot) => this.#read(slot));
    const [only] = found;
    if (found.length === 1 && only !== undefined) this.#bytes[only * SLOT_BYTES] = states.guilty;
    this.guilty = inState(states.guilty).map((slot) => this.#read(slot));
    for (const slot of slots) {
      if (this.#bytes[slot * SLOT_BYTES] === states.guilty) continue;
      this.#bytes[slot * SLOT_BYTES] = states.free;
      this.#free.push(slot);
    }
  }

  /** Records the start of a call. @returns its slot in the file; undefined if no slot is free or the id is too long */
  begin(hook: ItemHook, { predictionId, index }: InputPlace): number | undefined {
    const slot = predictionId.length > MAX_ID ? undefined : this.#free.pop();
    if (slot === undefined) return undefined;
    const at = slot * SLOT_BYTES;
    this.#bytes[at + 1] = hooks.indexOf(hook);
    this.#bytes[at + 2] = predictionId.length;
    this.#view.setUint32(at + 4, index);
    for (let i = 0; i < predictionId.length; i++) this.#bytes[at + 8 + i] = predictionId.charCodeAt(i);
    this.#bytes[at] = states.synchronous;
    return slot;
  }

  /** Records that the call has returned a promise. */
  awaited(slot: number): void {
    this.#bytes[slot * SLOT_BYTES] = states.awaited;
  }

  end(slot: number): void {
    this.#bytes[slot * SLOT_BYTES] = states.free;
    this.#free.push(slot);
  }

  #read(slot: number): RunningHook {
    const at = slot * SLOT_BYTES;
    const id = this.#bytes.subarray(at + 8, at + 8 + (this.#bytes[at + 2] ?? 0));
    return {
      hook: hooks[this.#bytes[at + 1] ?? 0] ?? "preprocess",
      predictionId: Buffer.from(id).toString("latin1"),
      index: this.#view.getUint32(at + 4),
    };
  }
}
