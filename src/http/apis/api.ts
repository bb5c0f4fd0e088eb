/** Options of the APIs of other servers, and the form of their errors. */
import type { Context } from "hono";
import type { HttpOptions } from "../options.ts";
import type { Problem, ProblemStatus } from "../problem.ts";
import type { Lifecycle } from "../routes/health.ts";
import type { ServedNames } from "../served-model.ts";
import type { MessageOptions } from "./message.ts";

export interface ApiOptions extends MessageOptions {
  readonly names: ServedNames;
  readonly config: HttpOptions;
  readonly hasKeys: boolean;
  readonly version: string;
  readonly lifecycle: Lifecycle;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** How one API answers errors at its paths, even if a check refuses the request before its route runs. */
export interface ErrorForm {
  readonly hasPath: (path: string) => boolean;
  /** The HTTP status in place of the server's status. */
  readonly statusOf: (status: ProblemStatus, problem: Problem) => ProblemStatus;
  readonly bodyOf: (problem: Problem, status: ProblemStatus, error: unknown) => object;
}
