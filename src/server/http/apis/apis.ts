/** The APIs of other servers. Each is a folder beside this file, and translates requests to predictions. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ApiName } from "../../config.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { ServedModel } from "../app.ts";
import type { Problem } from "../problem.ts";
import type { Lifecycle } from "../routes/health.ts";
import { addMcp } from "./mcp/mcp.ts";
import { addOpenai } from "./openai/openai.ts";
import { addV2 } from "./v2/v2.ts";
import { type WaitedOptions, WaitedPredictions } from "./waited-predictions.ts";

export interface ApiOptions {
  readonly model: ServedModel;
  readonly version: string;
  readonly lifecycle: Lifecycle;
  readonly predictions: WaitedPredictions;
  readonly metrics: Metrics;
  /** Seconds that a finished prediction stays readable. */
  readonly retainAge: number;
  /** Milliseconds after which a call of a tool may become a task. */
  readonly taskAfterMs: number;
  /** Counts and logs an error. @returns its status, code and text for the answer */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** Adds the routes of one API. Its answers have the form of that API, its errors too. */
type AddApi = (app: OpenAPIHono, options: ApiOptions) => void;

/** In the order of their routes: `/v2/*` of the API v2 would hide Cohere's `/v2/rerank`. */
const apis: Readonly<Record<ApiName, AddApi>> = { openai: addOpenai, v2: addV2, mcp: addMcp };

export function addApis(
  app: OpenAPIHono,
  names: readonly ApiName[],
  {
    predictions,
    siblings,
    memory,
    maxBodyBytes,
    onHold,
    peerOf,
    ...options
  }: Omit<ApiOptions, "predictions"> & WaitedOptions,
): void {
  const waited = new WaitedPredictions({ predictions, siblings, memory, maxBodyBytes, onHold, peerOf });
  for (const [name, add] of Object.entries(apis)) {
    if (names.some((each) => each === name)) add(app, { ...options, predictions: waited });
  }
}
