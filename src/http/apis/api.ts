/** Options of the APIs of other servers. */
import type { Context } from "hono";
import type { Problem } from "../problem.ts";
import type { Lifecycle } from "../routes/health.ts";
import type { ServedNames } from "../served-model.ts";
import type { WaitedOptions } from "./waited-predictions.ts";

export interface ApiOptions extends WaitedOptions {
  readonly names: ServedNames;
  readonly hasKeys: boolean;
  readonly version: string;
  readonly lifecycle: Lifecycle;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** Answers errors at the paths of one API in the format of the API, even if a check refuses the request before its route runs. */
export interface ErrorForm {
  readonly hasPath: (path: string) => boolean;
  readonly answer: (c: Context, problem: Problem, error: unknown) => Response;
}
