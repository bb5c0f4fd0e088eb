/** The routes of predictions and demo predictions: they translate between HTTP and the prediction service. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { DemoPrediction } from "../../serving/demo-prediction.ts";
import type { NewPrediction, PredictionService } from "../../serving/prediction-service.ts";
import type { PredictionRecord } from "../../serving/record.ts";
import type { HeldAnswers } from "../held-answers.ts";
import type { InputReader } from "../input-reader.ts";
import { cancelAfterMsOf, waitMsOf } from "../prefer.ts";
import { ProblemError } from "../problem.ts";

export interface PredictionRoutes {
  readonly service: PredictionService;
  readonly readers: { readonly predictions: InputReader; readonly demos: InputReader };
  readonly held: HeldAnswers;
}

/** One family of routes; predictions and demo predictions have the same. */
interface Family {
  readonly path: "/predictions" | "/demo";
  readonly reader: InputReader;
  create(request: NewPrediction): PredictionRecord;
  get(id: string): PredictionRecord | undefined;
}

export function addPredictionRoutes(app: OpenAPIHono, { service, readers, held }: PredictionRoutes): void {
  const families: readonly Family[] = [
    {
      path: "/predictions",
      reader: readers.predictions,
      create: (request) => service.create(request),
      get: (id) => service.get(id),
    },
    {
      path: "/demo",
      reader: readers.demos,
      create: (request) => service.createDemo(request),
      get: (id) => service.getDemo(id),
    },
  ];
  for (const family of families) {
    const { path } = family;
    app.post(path, async (c) => {
      const { raw } = c.req;
      const timeoutMs = cancelAfterMsOf(raw.headers.get("cancel-after"));
      const waitMs = waitMsOf(raw.headers.get("prefer"));
      const { inputs, bytes } = await family.reader.read(raw);
      const record = family.create({ inputs, bytes, timeoutMs });
      if (waitMs > 0) {
        await held.until(record, raw, waitMs);
        // A client that left was never told the id: nobody can read the outcome.
        if (!record.isOver && raw.signal.aborted) service.cancel(record);
      }
      return answer(record, { Location: `${path}/${record.id}` });
    });

    app.get(`${path}/:id`, async (c) => {
      const record = find(family, c);
      const { raw } = c.req;
      await held.until(record, raw, waitMsOf(raw.headers.get("prefer")));
      return answer(record);
    });

    app.post(`${path}/:id/cancel`, (c) => {
      const record = find(family, c);
      service.cancel(record);
      return answer(record);
    });
  }
}

function find({ get }: Family, c: Context): PredictionRecord {
  const record = get(c.req.param("id") ?? "");
  if (record !== undefined) return record;
  throw new ProblemError({
    status: 404,
    title: "Not found",
    code: "prediction_not_found",
    detail: "there is no prediction with this id; it may have ended too long ago to be kept",
  });
}

function answer(record: PredictionRecord, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(bodyOf(record), { headers: { ...headers, "Content-Type": "application/json" } });
}

/** The record as JSON text; its outcome was formatted when it ended. */
function bodyOf(record: PredictionRecord): string {
  const { id, status, outcome, createdAtMs, startedAtMs, finishedAtMs } = record;
  const isDemo = record instanceof DemoPrediction;
  let body = `{"${isDemo ? "demo_id" : "prediction_id"}":"${id}","status":"${status}"`;
  if (outcome !== undefined) body += `,${outcome.members}`;
  if (isDemo) body += `,"logs":${JSON.stringify(record.logs)}`;
  body += `,"created_at":"${createdAt(createdAtMs)}"`;
  if (startedAtMs !== undefined) body += `,"started_at":"${startedAt(startedAtMs)}"`;
  if (finishedAtMs !== undefined) body += `,"finished_at":"${finishedAt(finishedAtMs)}"`;
  return `${body}}`;
}

/** Formats times; the last one is kept, as the predictions of one batch began and ended in the same millisecond. */
function isoFormat(): (ms: number) => string {
  let [last, text] = [Number.NaN, ""];
  return (ms) => {
    if (ms !== last) [last, text] = [ms, new Date(ms).toISOString()];
    return text;
  };
}

const [createdAt, startedAt, finishedAt] = [isoFormat(), isoFormat(), isoFormat()];
