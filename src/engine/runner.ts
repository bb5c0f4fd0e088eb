/** What runs batches: opens weights, runs, disposes. Takes and gives plain bytes, so that it can move to a child process. */

import type { Tensor, TensorSpecs } from "../model/tensor.ts";
import { type NativeSession, openSession } from "../native/binding.ts";

export interface RunnerOptions {
  /** Path of the weights; TorchScript or AOTInductor, told apart by content. */
  readonly weights: string;
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** `cpu` or `cuda:N` */
  readonly device: string;
  readonly threads: number;
  /** How many runners are opened side by side; they share the weights. */
  readonly instances: number;
}

/** Runs one batch at a time, in the order given; one more may be given while one runs. */
export interface Runner {
  /**
   * @param items the input tensors of each item, in the order of the declared names
   * @returns one tensor for each declared output, with the items as first dimension
   */
  run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]>;
  /** Tells at once of batches that have ended, which else waits for the event loop to turn. */
  settle(): void;
  /** Takes effect between two batches. */
  setThreads(threads: number): Promise<void>;
  /** May be called twice. Batches that wait are rejected with `session_closed`; resolves when the weights are freed. */
  dispose(): Promise<void>;
}

/** Runs batches on a thread of this process that a native session owns. */
class ThreadRunner implements Runner {
  readonly #session: NativeSession;

  constructor(session: NativeSession) {
    this.#session = session;
  }

  run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]> {
    return this.#session.runBatch(items);
  }

  settle(): void {
    this.#session.settle();
  }

  setThreads(threads: number): Promise<void> {
    return this.#session.setThreads(threads);
  }

  dispose(): Promise<void> {
    return this.#session.dispose();
  }
}

/** Opens `instances` runners on the same weights; none stays open when one fails. */
export async function openThreadRunners(options: RunnerOptions): Promise<Runner[]> {
  const { weights: path, inputs, outputs, device, threads, instances } = options;
  const first = await openSession({ path, inputs, outputs, device, threads, instances });
  const sessions = [first];
  try {
    while (sessions.length < instances) {
      sessions.push(await openSession({ path, inputs, outputs, device, threads, share: first }));
    }
  } catch (error) {
    await Promise.all(sessions.map((session) => session.dispose()));
    throw error;
  }
  return sessions.map((session) => new ThreadRunner(session));
}
