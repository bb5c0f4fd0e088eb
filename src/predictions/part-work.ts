/** Adds the pieces of outputs that a model yields early to the prediction's log, within its memory limit. */
import type { PartsReceiver } from "../pipeline/item-pipeline.ts";
import type { Encoded } from "../pipeline/output-encoder.ts";
import { byteLengthOf, textOf } from "./large-text.ts";
import type { LivePrediction } from "./live.ts";
import type { OutputMemory } from "./output-memory.ts";

export class PartWork implements PartsReceiver {
  readonly #live: LivePrediction;
  readonly #memory: OutputMemory;

  constructor(live: LivePrediction, memory: OutputMemory) {
    this.#live = live;
    this.#memory = memory;
  }

  add(index: number, encoded: Encoded): void {
    const live = this.#live;
    if (live.parts === undefined || live.isOver) return;
    const text = textOf(encoded);
    const refusal = this.#memory.take(byteLengthOf(text), live.parts.charge);
    if (refusal !== undefined) {
      live.end(refusal.message, refusal.reason);
      return;
    }
    live.parts.add(index, text);
    live.partAdded();
  }

  /** Drops the parts of an input that runs again. Clients drop them when a part has sequence number 0 again. */
  restart(index: number): void {
    this.#memory.dropped(this.#live.parts?.restart(index) ?? 0);
  }
}
