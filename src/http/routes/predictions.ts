/** The routes of predictions: they translate between HTTP and the prediction service. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Prediction } from "../../serving/prediction.ts";
import type { PredictionService } from "../../serving/prediction-service.ts";
import type { InputReader } from "../inputs.ts";
import { cancelAfterMsOf, waitMsOf } from "../prefer.ts";
import { ProblemError } from "../problem.ts";

export interface PredictionRoutes {
  readonly service: PredictionService;
  readonly reader: InputReader;
  readonly onHold: (request: Request) => void;
}

export function addPredictionRoutes(app: OpenAPIHono, { service, reader, onHold }: PredictionRoutes): void {
  app.post("/predictions", async (c) => {
    const { headers, signal } = c.req.raw;
    const timeoutMs = cancelAfterMsOf(headers.get("cancel-after"));
    const waitMs = waitMsOf(headers.get("prefer"));
    const { inputs, bytes } = await reader.read(c);
    const prediction = service.create({ inputs, bytes, timeoutMs });
    if (waitMs > 0) {
      onHold(c.req.raw);
      await prediction.wait(waitMs, signal);
      // A client that left was never told the id: nobody can read the outcome.
      if (signal.aborted) service.cancel(prediction);
    }
    return answer(prediction, { Location: `/predictions/${prediction.id}` });
  });

  app.get("/predictions/:id", async (c) => {
    const prediction = find(service, c);
    const { headers, signal } = c.req.raw;
    const waitMs = waitMsOf(headers.get("prefer"));
    if (waitMs > 0) {
      onHold(c.req.raw);
      await prediction.wait(waitMs, signal);
    }
    return answer(prediction);
  });

  app.post("/predictions/:id/cancel", (c) => {
    const prediction = find(service, c);
    service.cancel(prediction);
    return answer(prediction);
  });
}

function find(service: PredictionService, c: Context): Prediction {
  const id = c.req.param("id") ?? "";
  const prediction = service.get(id);
  if (prediction !== undefined) return prediction;
  throw new ProblemError({
    status: 404,
    title: "Not found",
    code: "prediction_not_found",
    detail: "there is no prediction with this id; it may have ended too long ago to be kept",
  });
}

function answer(prediction: Prediction, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(bodyOf(prediction), { headers: { ...headers, "Content-Type": "application/json" } });
}

/** The Prediction as JSON text; its outcome was formatted when it ended. */
function bodyOf({ id, status, outcome, createdAtMs, startedAtMs, finishedAtMs }: Prediction): string {
  let body = `{"prediction_id":"${id}","status":"${status}"`;
  if (outcome !== undefined) body += `,${outcome.members}`;
  body += `,"created_at":"${iso(createdAtMs)}"`;
  if (startedAtMs !== undefined) body += `,"started_at":"${iso(startedAtMs)}"`;
  if (finishedAtMs !== undefined) body += `,"finished_at":"${iso(finishedAtMs)}"`;
  return `${body}}`;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
