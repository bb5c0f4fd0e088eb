/** Base class of the runners that call the model's own code: owns the sessions that the code uses. */
import { AuthorSessions } from "./author-sessions.ts";
import type { NativeSession } from "./native/binding.ts";

export interface AuthorRunnerOptions {
  readonly sessions: Readonly<Record<string, NativeSession>>;
  /** Device of the sessions, such as `cpu` or `cuda:0`. */
  readonly device?: string;
}

export abstract class AuthorRunner {
  protected readonly sessions: AuthorSessions;

  constructor({ sessions, device }: AuthorRunnerOptions) {
    this.sessions = new AuthorSessions(sessions, device);
  }

  get packedLayers(): number {
    return this.sessions.packedLayers;
  }

  settle(): void {
    this.sessions.settle();
  }

  setThreads(threads: number): Promise<void> {
    return this.sessions.setThreads(threads);
  }

  dispose(): Promise<void> {
    return this.sessions.dispose();
  }
}
