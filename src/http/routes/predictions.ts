/** The routes of predictions and demo predictions: they translate between HTTP and `Predictions`. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Client, Predictions } from "../../predictions/predictions.ts";
import type { PredictionRecord } from "../../predictions/record.ts";
import { readBody } from "../body-reader.ts";
import { type Family, families } from "../families.ts";
import { cancelAfterMsOf, waitMsOf } from "../prefer.ts";
import { ProblemError } from "../problem.ts";
import { recordJson } from "../record-json.ts";

/** Told when an answer has begun to be held back for long, and when that ends: its connection is silent, but not idle. */
export type OnHold = (request: Request, isHeld: boolean) => void;

export interface PredictionRoutes {
  readonly predictions: Predictions;
  readonly maxBodyBytes: number;
  readonly onHold: OnHold;
}

export function addPredictionRoutes(app: OpenAPIHono, { predictions, maxBodyBytes, onHold }: PredictionRoutes): void {
  for (const family of families) {
    const { path, kind } = family;
    app.post(path, async (c) => {
      const { raw } = c.req;
      const timeoutMs = cancelAfterMsOf(raw.headers.get("cancel-after"));
      const waitMs = waitMsOf(raw.headers.get("prefer"));
      const { body, bytes } = await readBody(raw, maxBodyBytes);
      const client = new RequestClient(raw, onHold);
      const record = await predictions.create({ kind, body, bytes, timeoutMs, waitMs, client });
      return answer(family, record, { Location: `${path}/${record.id}` });
    });

    app.get(`${path}/:id`, async (c) => {
      const { raw } = c.req;
      const waitMs = waitMsOf(raw.headers.get("prefer"));
      const client = new RequestClient(raw, onHold);
      return answer(family, await predictions.wait(kind, c.req.param("id"), { waitMs, client }));
    });

    app.post(`${path}/:id/cancel`, async (c) => answer(family, await predictions.cancel(kind, c.req.param("id"))));
  }
}

/** A class, as the signal of a request is made when it is asked for. */
class RequestClient implements Client {
  readonly #request: Request;
  readonly #onHold: OnHold;

  constructor(request: Request, onHold: OnHold) {
    this.#request = request;
    this.#onHold = onHold;
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }

  held(isHeld: boolean): void {
    this.#onHold(this.#request, isHeld);
  }
}

function answer(
  family: Family,
  record: PredictionRecord | undefined,
  headers: Readonly<Record<string, string>> = {},
): Response {
  if (record === undefined) {
    throw new ProblemError({
      status: 404,
      code: "prediction_not_found",
      detail: "there is no prediction with this id; it may have ended too long ago to be kept",
    });
  }
  return new Response(recordJson(record, family), { headers: { ...headers, "Content-Type": "application/json" } });
}
