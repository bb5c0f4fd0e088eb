/** Base class of the runners that call the model's own code: owns the sessions that the code uses. */
import type { HookCaller } from "../author/hook-context.ts";
import type { CallArgument, CallResult, DeviceTensor, ModelSession } from "../author/session.ts";
import type { TensorSpecs } from "../author/tensor.ts";
import { log } from "../base/log.ts";
import type { NativeSession } from "./native/binding.ts";
import { TensorScope } from "./tensor-scope.ts";

export interface AuthorRunnerOptions {
  readonly sessions: Readonly<Record<string, NativeSession>>;
  readonly device?: string;
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  readonly parts: TensorSpecs;
}

export abstract class AuthorRunner {
  /** The sessions by name, in the form that the model's own code gets. */
  protected readonly sessions: Readonly<Record<string, ModelSession>>;
  /**
   * Tensors on the device that calls of sessions returned. The end of a batch or step frees tensors that neither a
   * state nor `keep()` keeps.
   */
  protected readonly tensors = new TensorScope();
  protected readonly caller: HookCaller;
  readonly #native: readonly NativeSession[];
  readonly #closed = new AbortController();
  #last: Promise<unknown> = Promise.resolve();

  constructor({ sessions, device }: AuthorRunnerOptions) {
    this.#native = Object.values(sessions);
    this.sessions = Object.fromEntries(
      Object.entries(sessions).map(([name, session]) => [name, this.#callable(session)]),
    );
    this.caller = {
      signal: this.#closed.signal,
      log: (text) => log.info(text),
      ...(device !== undefined && { device }),
    };
  }

  get packedLayers(): number {
    return this.#native.reduce((sum, session) => sum + session.packedLayers, 0);
  }

  /**
   * Runs one batch at a time: concurrent batches would mix the state of a TorchScript module, and the end of a batch
   * frees the tensors of all calls.
   */
  protected inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run).finally(() => this.tensors.free());
    this.#last = result.catch(() => {});
    return result;
  }

  settle(): void {
    // The sessions share one queue of finished work, so one call is enough.
    this.#native[0]?.settle();
  }

  async setThreads(threads: number): Promise<void> {
    await Promise.all(this.#native.map((session) => session.setThreads(threads)));
  }

  async dispose(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#native.map((session) => session.dispose()));
  }

  #callable(session: NativeSession): ModelSession {
    return {
      call: <R extends CallResult = DeviceTensor>(method: string, ...args: readonly CallArgument[]) =>
        session.call(method, args, (tensor) => this.tensors.add(tensor)) as Promise<R>,
    };
  }
}
