/**
 * Calls the author's hooks (`preprocess` and others). If a call blocks its front for longer than the limit, the watchdog of
 * the supervisor ends the front. The supervisor reads the call from the cell, and the next front fails this input. A client
 * that waits loses its connection. The cell has a call until its first `await`. For code that blocks later, no input is
 * known as the cause: the predictions that ran in the front count a death.
 */
import { writeFileSync } from "node:fs";
import * as z from "../author/z.ts";
import { MODEL_FAILED, SconceError } from "../base/errors.ts";
import type { EventLoopLag } from "../machine/processes/event-loop-lag.ts";

const hooks = ["preprocess", "postprocess"] as const;
export type ItemHook = (typeof hooks)[number];

/** Prediction and index of an input; without an id outside a prediction. */
export interface InputPlace {
  readonly predictionId?: string | undefined;
  readonly index?: number;
}

export const hookCall = z.object({ hook: z.enum(hooks), predictionId: z.string(), index: z.int() });
export type HookCall = z.infer<typeof hookCall>;

/** Layout of a record: a byte each for the state, the hook and the length of the id; the index from byte 4, the id from byte 8. */
const [STATE, HOOK, LENGTH, INDEX, ID] = [0, 1, 2, 4, 8];
const RECORD_BYTES = 264;

/** The running call of `preprocess` or `postprocess` in a front, in memory that the supervisor reads. */
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

  begin(hook: ItemHook, predictionId: string, index: number): void {
    const bytes = this.#bytes;
    bytes[HOOK] = hooks.indexOf(hook);
    bytes[LENGTH] = bytes.write(predictionId, ID, "latin1");
    bytes.writeUInt32LE(index, INDEX);
    // Stored last and atomically, so that other processors see the fields before the state.
    Atomics.store(bytes, STATE, 1);
  }

  end(): void {
    Atomics.store(this.#bytes, STATE, 0);
  }

  /** The running call; undefined if none runs. */
  get running(): HookCall | undefined {
    const bytes = this.#bytes;
    if (Atomics.load(bytes, STATE) === 0) return undefined;
    return {
      hook: hooks[bytes[HOOK] ?? 0] ?? "preprocess",
      predictionId: bytes.toString("latin1", ID, ID + (bytes[LENGTH] ?? 0)),
      index: bytes.readUInt32LE(INDEX),
    };
  }
}

export interface HooksOptions {
  readonly lag?: Pick<EventLoopLag, "ran">;
  /** The build in the log's warnings about slow hooks; undefined outside a server. */
  readonly label?: string | undefined;
  /** Undefined in a process without a supervisor. */
  readonly cell?: HookCell | undefined;
  /** Calls that blocked an earlier process. Their inputs fail without another call. */
  readonly guilty?: readonly HookCall[] | undefined;
}

type Hook = Parameters<EventLoopLag["ran"]>[0];

export class Hooks {
  readonly #lag: HooksOptions["lag"];
  readonly #label: string | undefined;
  readonly #cell: HookCell | undefined;
  readonly #guilty: ReadonlySet<string>;

  constructor({ lag, label, cell, guilty = [] }: HooksOptions = {}) {
    this.#lag = lag;
    this.#label = label;
    this.#cell = cell;
    this.#guilty = new Set(guilty.map(({ predictionId, index }) => textOf(predictionId, index)));
  }

  /**
   * Tells the event-loop monitor that the hook's code has just run. If the thread was blocked, the log names the hook.
   */
  ran(hook: Hook): void {
    this.#lag?.ran(hook, this.#label);
  }

  /**
   * Notes that a hook begins. Call `end` when the call has returned. A hook must not call another hook, because the cell
   * has one call.
   * @throws SconceError `item_failed` if the input blocked an earlier process
   */
  begin(hook: ItemHook, { predictionId, index = 0 }: InputPlace): void {
    this.#lag?.ran(hook, this.#label);
    if (predictionId === undefined) return;
    if (this.#guilty.size > 0 && this.#guilty.has(textOf(predictionId, index))) {
      const message = `${hook} failed: it blocked its process, which was ended and started again`;
      throw new SconceError("item_failed", message, {
        clientMessage: `${MODEL_FAILED} in ${hook}: it did not return in time`,
      });
    }
    this.#cell?.begin(hook, predictionId, index);
  }

  end(): void {
    this.#cell?.end();
  }
}

function textOf(predictionId: string, index: number): string {
  return `${predictionId} ${index}`;
}
