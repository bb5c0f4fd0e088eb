/** The routes of predictions and demo predictions. Translates between HTTP and the interface `Predictions`. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { InputDecoder } from "../../pipeline/inputs/input-decoder.ts";
import { memoryFull } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { onceOf } from "../../predictions/once.ts";
import type { AskedPrediction, Predictions, Watched, Watcher } from "../../predictions/predictions.ts";
import { hasEnded, type PredictionRecord, statusOf } from "../../predictions/record.ts";
import { announcedBytes, readBody } from "../body-reader.ts";
import { type ClientOptions, type OnHold, type PeerOf, RequestClient } from "../client.ts";
import { END_ID, EventStream } from "../event-stream.ts";
import { bodyOf, LARGE_ANSWER_LENGTH, type LargeAnswers } from "../large-answers.ts";
import type { HttpOptions } from "../options.ts";
import { unknownPrediction } from "../problem.ts";
import { type Family, families, largeRecord, recordJson, recordPath } from "../record-json.ts";
import { contextOf, type RequestContext } from "../request.ts";
import { cancelAfterMsOf, checkChosenId, idOfKey, waitMsOf, webhookOf } from "../request-headers.ts";
import { type Siblings, STATUS_HEADER } from "../siblings.ts";
import type { Uploads } from "../uploads.ts";

export interface PredictionRoutes {
  readonly predictions: Predictions;
  /** Forwards requests to the server's other HTTP processes, since each prediction belongs to one process. */
  readonly siblings?: Siblings | undefined;
  readonly config: HttpOptions;
  /** Path before the routes, for `Location` headers: --base-path, and `/models/NAME` if the request names a model. */
  readonly basePath: string;
  readonly decoder: Pick<InputDecoder, "expected">;
  /** Whether the model is not loaded now. Accepted predictions then wait until it is. */
  readonly isLoading?: (() => boolean) | undefined;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  readonly large: LargeAnswers;
  readonly onHold?: OnHold;
  readonly peerOf?: PeerOf;
}

interface Asked extends AskedPrediction {
  readonly asksForEvents: boolean;
  /** The id from the path, or the id computed from `Idempotency-Key`. */
  readonly chosen?: string;
}

export function addPredictionRoutes(app: OpenAPIHono, options: PredictionRoutes): void {
  const {
    predictions,
    siblings,
    memory,
    uploads,
    large,
    isLoading,
    decoder,
    basePath,
    onHold = () => {},
    peerOf = () => undefined,
  } = options;
  const clientOptions = { onHold, peerOf };
  const bodyLimits = { maxBytes: options.config.maxBodyBytes, memory, uploads, decoder };
  const locationOf = (family: Family, id: string) => `${basePath}${recordPath(family, id)}`;
  const events = async (
    family: Family,
    raw: Request,
    { context, isKnown = true, ...streamed }: Streamed,
  ): Promise<Response> => {
    const { kind } = family;
    const lastEventId = streamed.create === undefined ? raw.headers.get("last-event-id") : null;
    if (lastEventId === END_ID) return new Response(null, { status: 204 });
    let made: PredictionRecord | undefined;
    let watched: Watched | undefined;
    const onPredictionEnd = () => {
      if (watched?.record !== undefined) context.predictionStatus = statusOf(watched.record);
      // The idle timeout applies to the connection again.
      onHold(raw, false);
    };
    const onStreamEnd = (hasLeft: boolean) => {
      onPredictionEnd();
      // Nobody can read the prediction: its client has disconnected, and no other client knows the id.
      if (hasLeft && !isKnown && made !== undefined) predictions.cancel(kind, made.id).catch(() => {});
    };
    const stream = new EventStream({ family, lastEventId, large, memory, isLoading, onPredictionEnd, onStreamEnd });
    const { changed } = stream;
    const begun = (begunWatched: Watched) => {
      watched = begunWatched;
    };
    try {
      made = await streamed.create?.({ changed, begun });
      const id = made?.id ?? streamed.id ?? "";
      watched ??= (await predictions.watch(kind, id, changed)) ?? endedWatched(made);
    } catch (error) {
      watched?.[Symbol.dispose]();
      throw error;
    }
    if (watched === undefined) throw unknownPrediction();
    context.predictionStatus = watched.record && statusOf(watched.record);
    onHold(raw, true);
    const body = stream.body(watched);
    // If the client has disconnected before this line, Bun does not cancel the body.
    if (raw.signal.aborted) await body.cancel();
    const location = made === undefined ? {} : { Location: locationOf(family, made.id) };
    context.hasIdHeader = true;
    context.model = watched.record?.model;
    const model = context.model && { "X-Model": context.model.name };
    const headers = { ...eventHeaders, ...location, ...model, "X-Request-Id": context.requestId };
    return new Response(body, { headers });
  };
  for (const family of families) {
    const { path, kind } = family;
    const create = async (raw: Request, origin: RequestContext, asked: Asked) => {
      const { chosen, timeoutMs, waitMs, webhook, client } = asked;
      const { body, bytes, charge } = await readBody(raw, bodyLimits);
      const once = chosen === undefined ? undefined : await onceOf(chosen, kind, body);
      const request = { kind, body, bytes, charge, timeoutMs, waitMs, webhook, client, origin, once };
      if (asked.asksForEvents) {
        return events(family, raw, {
          context: origin,
          create: (watcher) => predictions.create({ ...request, watcher }),
          isKnown: once !== undefined || webhook !== undefined,
        });
      }
      const record = await predictions.create(request);
      const mustWait = !hasEnded(record) && isLoading?.() === true;
      return answer(family, record, {
        large,
        context: origin,
        location: locationOf(family, record.id),
        waitMs,
        mustWait,
      });
    };

    const createOnce = async (raw: Request, origin: RequestContext, asked: Asked & { readonly chosen: string }) =>
      (await siblings?.forward(asked.chosen, raw, origin)) ?? create(raw, origin, asked);

    // Not async: under overload this handler refuses most requests, and a promise would double the cost of a refusal.
    app.post(path, (c) => {
      const { headers } = c.req.raw;
      const context = contextOf(c);
      const asked = askedOf(c.req.raw, clientOptions, context);
      const key = headers.get("idempotency-key");
      // Does not check the queue first: a repeated Idempotency-Key starts no prediction, so a full queue does not refuse the request.
      if (key !== null) return createOnce(c.req.raw, context, { ...asked, chosen: context.ownId(idOfKey(key, path)) });
      // A body above the limit gets 413 in create(), so the queue is not checked. A 429 would invite a retry, which cannot succeed.
      if (asked.bytes <= bodyLimits.maxBytes) predictions.admit(asked);
      return create(c.req.raw, context, asked);
    });

    app.put(`${path}/:id`, (c) => {
      const { raw } = c.req;
      return createOnce(raw, contextOf(c), {
        ...askedOf(raw, clientOptions, contextOf(c)),
        chosen: checkChosenId(c.req.param("id"), contextOf(c)),
      });
    });

    app.get(`${path}/:id`, async (c) => {
      const { raw } = c.req;
      const id = contextOf(c).ownId(c.req.param("id"));
      const waitMs = waitMsOf(raw.headers.get("prefer"));
      const client = new RequestClient(raw, clientOptions, contextOf(c));
      const forwarded = await siblings?.forward(id, raw, contextOf(c));
      if (forwarded !== undefined) return forwarded;
      if (asksForEvents(raw)) return events(family, raw, { id, context: contextOf(c) });
      const shared = large.join(recordPath(family, id));
      const context = contextOf(c);
      if (shared !== undefined) {
        context.model = shared.text.model;
        context.predictionStatus = shared.text.status;
        return jsonResponse(shared.body, { context, waitMs });
      }
      return answer(family, await predictions.wait(kind, id, { waitMs, client }), { large, context, waitMs });
    });

    // A separate path for clients that are generated from the OpenAPI document: they support one media type per operation.
    app.get(`${path}/:id/events`, async (c) => {
      const id = contextOf(c).ownId(c.req.param("id"));
      const forwarded = await siblings?.forward(id, c.req.raw, contextOf(c));
      return forwarded ?? events(family, c.req.raw, { id, context: contextOf(c) });
    });

    app.post(`${path}/:id/cancel`, async (c) => {
      const id = contextOf(c).ownId(c.req.param("id"));
      const forwarded = await siblings?.forward(id, c.req.raw, contextOf(c));
      return forwarded ?? answer(family, await predictions.cancel(kind, id), { large, context: contextOf(c) });
    });
  }
}

/** `Retry-After` in seconds for a prediction whose model is loading. */
const LOADING_S = "1";

interface Streamed {
  readonly context: RequestContext;
  readonly id?: string;
  /** Creates the prediction; undefined for a request that names an existing prediction. */
  readonly create?: (watcher: Watcher) => Promise<PredictionRecord>;
  /** Whether a webhook or another client may need the prediction. It then continues after its client disconnects. Default: true. */
  readonly isKnown?: boolean;
}

/** Headers of event streams. They keep proxies from caching, buffering or compressing events. */
const eventHeaders = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
};

/** Whether the client wants an event stream. Clients that prefer JSON list it first in Accept. */
function asksForEvents({ headers }: Request): boolean {
  return headers.get("accept")?.startsWith("text/event-stream") ?? false;
}

/** A prediction that ended before its stream began, on a server that does not retain predictions. Undefined if it has not ended. */
function endedWatched(record: PredictionRecord | undefined): Watched | undefined {
  return record && hasEnded(record) ? { record, outputs: [], [Symbol.dispose]() {} } : undefined;
}

function askedOf(raw: Request, options: ClientOptions, context: RequestContext): Asked {
  const { headers } = raw;
  const isForEvents = asksForEvents(raw);
  return {
    bytes: announcedBytes(headers) ?? 0,
    timeoutMs: cancelAfterMsOf(headers.get("cancel-after")),
    waitMs: isForEvents ? 0 : waitMsOf(headers.get("prefer")),
    webhook: webhookOf(headers),
    client: new RequestClient(raw, options, context),
    asksForEvents: isForEvents,
  };
}

interface AnswerOptions {
  readonly large: LargeAnswers;
  readonly context: RequestContext;
  readonly location?: string | undefined;
  /** Milliseconds of `wait` for the header `Preference-Applied`. Default: 0. */
  readonly waitMs?: number;
  /** Whether the prediction waits until the model is loaded, so that the answer gets `Retry-After`. */
  readonly mustWait?: boolean;
}

function answer(family: Family, record: PredictionRecord | undefined, options: AnswerOptions): Response {
  const { large, location } = options;
  if (record === undefined) throw unknownPrediction();
  options.context.model = record.model;
  options.context.predictionStatus = statusOf(record);
  if (!hasEnded(record) || record.outcome.members.length < LARGE_ANSWER_LENGTH) {
    return jsonResponse(bodyOf(recordJson(record, family), options.context), options);
  }
  const path = recordPath(family, record.id);
  // POST and PUT (with `location`) are not refused for lack of memory, since the prediction has just freed more than the answer needs.
  if (location === undefined && !large.hasRoomFor(path, record.outcome.members.length)) throw memoryFull();
  return jsonResponse(
    large.stream(path, () => largeRecord(record, family)),
    options,
  );
}

function jsonResponse(
  body: string | ReadableStream<Uint8Array>,
  { context, location, waitMs = 0, mustWait = false }: Omit<AnswerOptions, "large">,
): Response {
  context.isStream = typeof body !== "string";
  // Sets X-Request-Id here, because withContext() would set it on the finished Response, which costs more.
  context.hasIdHeader = true;
  const headers: Record<string, string> = { "Content-Type": "application/json", "X-Request-Id": context.requestId };
  if (context.model !== undefined) headers["X-Model"] = context.model.name;
  if (context.isForwarded && context.predictionStatus !== undefined) headers[STATUS_HEADER] = context.predictionStatus;
  if (location !== undefined) headers.Location = location;
  if (mustWait) headers["Retry-After"] = LOADING_S;
  // `waitMs` may be less than the client asked for.
  if (waitMs > 0) headers["Preference-Applied"] = `wait=${waitMs / 1000}`;
  return new Response(body, { headers });
}
