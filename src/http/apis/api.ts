/** The shape of a translator, which answers the requests of one API of other servers by predictions. */
import type { Context, Hono } from "hono";
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

export interface Translator {
  readonly addRoutes: (app: Hono, options: ApiOptions) => void;
  /** Whether a path belongs to the API. An error at the path has the API's form, even if a check refuses the request before its route runs. */
  readonly hasPath: (path: string) => boolean;
  /** The HTTP status in place of the server's status. */
  readonly statusOf: (status: ProblemStatus) => ProblemStatus;
  readonly bodyOf: (problem: Problem, status: ProblemStatus, error: unknown) => object;
}
