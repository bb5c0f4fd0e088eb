/**
 * Order of the decoding and encoding of pictures in this process. Models take turns, so a model with many waiting
 * pictures does not delay the pictures of another.
 *
 * The code of `preprocess` after `await image.pixels()` runs on the thread that answers requests. If many pictures are
 * ready at once, this code runs over several turns of the event loop.
 */

import { drainMicrotasks } from "bun:jsc";
import { availableParallelism } from "node:os";
import { Gate } from "../base/collections/gate.ts";
import { LoopWork } from "../base/loop-work.ts";

/**
 * Maximum pictures in progress at once. A picture is in progress until its code has a turn of the event loop. With two
 * pictures for each core, the throughput of small pictures was a fifth lower.
 */
const MAX_RUNNING = 8 * availableParallelism();

export class PictureTurns {
  readonly #gate: Gate;
  readonly #work = new LoopWork();

  constructor(maxRunning = MAX_RUNNING) {
    this.#gate = new Gate(maxRunning);
  }

  /**
   * Runs a task in the turn of its model. The code after `await` runs in a later turn of the event loop.
   * @param signal called only if the task waits. An abort during the wait cancels the task.
   * @throws the signal's reason, or the error of the task
   */
  run<T>(model: object, task: () => Promise<T>, signal?: () => AbortSignal | undefined): Promise<T> {
    const waits = this.#gate.isFull;
    return this.#gate.run(model, async () => {
      if (waits) signal?.()?.throwIfAborted();
      try {
        return await task();
      } finally {
        await this.#turn();
      }
    });
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#work.add(() => {
        resolve();
        // Runs the code that awaits the picture, so that its time counts for this turn.
        drainMicrotasks();
      });
    });
  }
}

export const pictures = new PictureTurns();
