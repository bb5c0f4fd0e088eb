/** Runners whose batches go through the forward pass of one file of weights, on threads of this process. */
import { SconceError } from "../errors.ts";
import type { Tensor } from "../model/tensor.ts";
import type { NativeSession } from "../native/binding.ts";
import type { Runner, RunnerOptions } from "./runner.ts";
import { openSessions } from "./sessions.ts";

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

export async function openThreadRunners(options: RunnerOptions): Promise<Runner[]> {
  const { weights, inputs, outputs, device, threads, instances } = options;
  const paths = Object.values(weights);
  const [path] = paths;
  // defineModel has refused it.
  if (path === undefined || paths.length > 1) throw new SconceError("model_invalid", "several weights need `predict`");
  const sessions = await openSessions({ path, inputs, outputs, device, threads }, instances);
  return sessions.map((session) => new ThreadRunner(session));
}
