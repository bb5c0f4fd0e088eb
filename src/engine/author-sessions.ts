/** The sessions of one runner, in the form that the model's own code gets. */
import type { HookCaller } from "../author/hook-context.ts";
import type { CallArgument, CallResult, DeviceTensor, ModelSession } from "../author/session.ts";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { NativeSession } from "./native/binding.ts";
import { TensorScope } from "./tensor-scope.ts";

export class AuthorSessions {
  readonly byName: Readonly<Record<string, ModelSession>>;
  /** Tensors on the device that calls of the sessions returned. */
  readonly tensors = new TensorScope();
  readonly #native: readonly NativeSession[];
  readonly caller: HookCaller;
  readonly #closed = new AbortController();

  constructor(sessions: Readonly<Record<string, NativeSession>>, device: string | undefined) {
    this.#native = Object.values(sessions);
    this.byName = Object.fromEntries(
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

  /** Checks that the sessions are open. @throws SconceError `session_closed` after `dispose` */
  requireOpen(): void {
    if (this.#closed.signal.aborted)
      throw new SconceError("session_closed", "the model was closed before this batch ran");
  }

  settle(): void {
    // One call settles all sessions of this process.
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
        // Only the author knows the result type of a method.
        session.call(method, args, (tensor) => this.tensors.add(tensor)) as Promise<R>,
    };
  }
}
