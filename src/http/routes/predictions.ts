/** The routes of predictions and demo predictions. Translates between HTTP and the interface `Predictions`. */
import type { Context } from "hono";
import { memoryFull } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { onceOf } from "../../predictions/once.ts";
import { type EndedRecord, hasEnded, type PredictionRecord, statusOf } from "../../predictions/record.ts";
import type { AskedPrediction, NewPrediction } from "../../predictions/request.ts";
import type { Watched, Watcher } from "../../predictions/watched.ts";
import { announcedBytes, readBody } from "../body-reader.ts";
import { END_ID, EventStream } from "../event-stream.ts";
import { streamOf } from "../large-answers.ts";
import { operationsOf } from "../openapi/prediction-operations.ts";
import type { HttpOptions } from "../options.ts";
import { type OtherFronts, STATUS_HEADER } from "../other-fronts.ts";
import { unknownPrediction } from "../problem.ts";
import {
  bodyOf,
  type Family,
  families,
  LARGE_ANSWER_LENGTH,
  largeRecord,
  recordJson,
  recordPath,
} from "../record-json.ts";
import { contextOf, modelIn, type RequestContext } from "../request.ts";
import { cancelAfterMsOf, checkChosenId, idOfKey, waitMsOf, webhookOf } from "../request-headers.ts";
import type { Route } from "../route.ts";
import type { Uploads } from "../uploads.ts";

export interface PredictionRoutes {
  /** Forwards requests to the server's other fronts, since each prediction belongs to one front. Undefined with a queue. */
  readonly otherFronts?: OtherFronts | undefined;
  readonly config: HttpOptions;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
}

interface Announced extends AskedPrediction {
  readonly wantsEvents: boolean;
  /** The id from the path, or the id computed from `Idempotency-Key`. */
  readonly chosen?: string;
}

/** The routes of predictions and of demo predictions: one set of handlers for both kinds. */
export function predictionRoutes(options: PredictionRoutes): Route[] {
  const { otherFronts, memory, uploads, config } = options;
  const bodyLimits = { maxBytes: config.maxBodyBytes, memory, uploads };
  const locationOf = ({ modelPath }: RequestContext, family: Family, id: string) =>
    `${config.basePath}${modelPath}${recordPath(family, id)}`;

  const events = async (
    context: RequestContext,
    family: Family,
    { isKnown = true, ...streamed }: Streamed,
  ): Promise<Response> => {
    const { request: raw } = context;
    const { kind } = family;
    const { predictions } = modelIn(context);
    const lastEventId = streamed.create === undefined ? raw.headers.get("last-event-id") : null;
    if (lastEventId === END_ID) return new Response(null, { status: 204 });
    let made: PredictionRecord | undefined;
    let watched: Watched | undefined;
    const onLeave = () => {
      // No client can read the prediction: its client has disconnected, and no other client knows the id.
      if (!isKnown && made !== undefined) predictions.cancel(kind, made.id).catch(() => {});
    };
    const stream = new EventStream({ family, lastEventId, memory, context, onLeave });
    const { changed } = stream;
    const started = (first: Watched) => {
      watched = first;
    };
    try {
      made = await streamed.create?.({ changed, started });
      const id = made?.id ?? streamed.id ?? "";
      watched ??= (await predictions.watch(kind, id, changed)) ?? endedWatched(made);
    } catch (error) {
      watched?.[Symbol.dispose]();
      throw error;
    }
    if (watched === undefined) throw unknownPrediction();
    const body = stream.body(watched);
    // If the client has disconnected before this line, Bun does not cancel the body.
    if (raw.signal.aborted) await body.cancel();
    context.model = watched.record?.model;
    const location = made && locationOf(context, family, made.id);
    return new Response(body, { headers: { ...headersOf(context, location), ...eventHeaders } });
  };

  const create = async (context: RequestContext, family: Family, announced: Announced) => {
    const { kind } = family;
    const { predictions, decoder } = modelIn(context);
    const { chosen, timeoutMs, waitMs, webhook } = announced;
    const { body, bytes, charge } = await readBody(context.request, bodyLimits, decoder);
    const once = chosen === undefined ? undefined : await onceOf(chosen, kind, body);
    const request = { kind, body, bytes, charge, timeoutMs, waitMs, webhook, client: context, origin: context, once };
    if (announced.wantsEvents) return eventsOf(context, family, request);
    const made = predictions.create(request);
    const record = made instanceof Promise ? await made : made;
    const location = locationOf(context, family, record.id);
    return answer(family, record, { memory, context, location, waitMs });
  };

  /** Creates a prediction, and answers with its events. */
  const eventsOf = (context: RequestContext, family: Family, request: NewPrediction) =>
    events(context, family, {
      create: async (watcher) => modelIn(context).predictions.create({ ...request, watcher }),
      isKnown: request.once !== undefined || request.webhook !== undefined,
    });

  /** Forwards a request for a prediction to the front that has the prediction, or answers the request here. */
  const here = async (
    context: RequestContext,
    id: string,
    handle: (id: string) => Response | Promise<Response>,
  ): Promise<Response> => (await otherFronts?.forward(id, context)) ?? handle(id);
  const idIn = (c: Context, { idName }: Family) => contextOf(c).ownId(c.req.param(idName) ?? "");

  // Not async: under overload this handler refuses most requests, and a promise would double the cost of a refusal.
  const post = (context: RequestContext, family: Family) => {
    const announced = announcedOf(context);
    const key = context.request.headers.get("idempotency-key");
    if (key !== null) return postOnce(context, family, { announced, key });
    // A body above the limit gets 413 in create(), so the queue is not checked. A 429 would invite a retry, which cannot succeed.
    if (announced.bytes <= bodyLimits.maxBytes) modelIn(context).predictions.admit(announced);
    return create(context, family, announced);
  };

  /** Does not check the queue first: a repeated Idempotency-Key starts no prediction, so a full queue does not refuse the request. */
  const postOnce = (
    context: RequestContext,
    family: Family,
    { announced, key }: { readonly announced: Announced; readonly key: string },
  ) => {
    const id = context.ownId(idOfKey(key, family.path));
    return here(context, id, (chosen) => create(context, family, { ...announced, chosen }));
  };

  const put = (c: Context, family: Family) => {
    const context = contextOf(c);
    const announced = announcedOf(context);
    const id = checkChosenId(c.req.param(family.idName) ?? "", context);
    return here(context, id, (chosen) => create(context, family, { ...announced, chosen }));
  };

  const read = (c: Context, family: Family) => {
    const context = contextOf(c);
    return here(context, idIn(c, family), async (id) => {
      const { request } = context;
      if (wantsEvents(request)) return events(context, family, { id });
      const waitMs = waitMsOf(request.headers.get("prefer"));
      const record = await modelIn(context).predictions.wait(family.kind, id, { waitMs, client: context });
      return answer(family, record, { memory, context, waitMs });
    });
  };

  const cancel = (c: Context, family: Family) => {
    const context = contextOf(c);
    return here(context, idIn(c, family), async (id) => {
      const record = await modelIn(context).predictions.cancel(family.kind, id);
      return answer(family, record, { memory, context });
    });
  };

  return families.flatMap((family): Route[] => {
    const { path, idName } = family;
    const onePath = `${path}/{${idName}}`;
    const described = operationsOf(family);
    return [
      {
        method: "post",
        path,
        answer: (c) => post(contextOf(c), family),
        direct: (context) => post(context, family),
        describe: described.create,
      },
      { method: "put", path: onePath, answer: (c) => put(c, family), describe: described.put },
      { method: "post", path: `${onePath}/cancel`, answer: (c) => cancel(c, family), describe: described.cancel },
      { method: "get", path: onePath, answer: (c) => read(c, family), describe: described.read },
    ];
  });
}

interface Streamed {
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
function wantsEvents({ headers }: Request): boolean {
  return headers.get("accept")?.startsWith("text/event-stream") ?? false;
}

/** A prediction that ended before its stream began, on a server that does not retain predictions. Undefined if it has not ended. */
function endedWatched(record: PredictionRecord | undefined): Watched | undefined {
  return record && hasEnded(record) ? { record, [Symbol.dispose]() {} } : undefined;
}

function announcedOf(context: RequestContext): Announced {
  const { headers } = context.request;
  const isStreamed = wantsEvents(context.request);
  return {
    bytes: announcedBytes(headers) ?? 0,
    timeoutMs: cancelAfterMsOf(headers.get("cancel-after")),
    waitMs: isStreamed ? 0 : waitMsOf(headers.get("prefer")),
    webhook: webhookOf(headers),
    client: context,
    wantsEvents: isStreamed,
  };
}

interface AnswerOptions {
  readonly memory: MemoryAccount;
  readonly context: RequestContext;
  readonly location?: string | undefined;
  /** Milliseconds of `wait` for the header `Preference-Applied`. Default: 0. */
  readonly waitMs?: number;
}

function answer(
  family: Family,
  record: PredictionRecord | undefined,
  { memory, context, location, waitMs = 0 }: AnswerOptions,
): Response {
  if (record === undefined) throw unknownPrediction();
  const large = hasEnded(record) && record.outcome.members.length >= LARGE_ANSWER_LENGTH ? record : undefined;
  // POST and PUT (with `location`) are not refused for lack of memory, since the prediction has just freed more than the answer needs.
  if (large !== undefined && location === undefined && !memory.hasRoom("answers", large.outcome.members.length))
    throw memoryFull();
  context.model = record.model;
  context.predictionStatus = statusOf(record);
  const body = large ? largeBody(large, family, memory) : bodyOf(recordJson(record, family));
  context.isStream = typeof body !== "string";
  const headers = headersOf(context, location);
  headers["Content-Type"] = "application/json";
  if (context.isForwarded) headers[STATUS_HEADER] = context.predictionStatus;
  // `waitMs` may be less than the client asked for.
  if (waitMs > 0) headers["Preference-Applied"] = `wait=${waitMs / 1000}`;
  return new Response(body, { headers });
}

/** A separate function, so that a small answer costs no closure. */
function largeBody(record: EndedRecord, family: Family, memory: MemoryAccount): ReadableStream<Uint8Array> {
  return streamOf(() => largeRecord(record, family), memory);
}

/** Headers of every answer with a prediction. Set here, because withContext() would set them on the finished Response, which costs more. */
function headersOf(context: RequestContext, location: string | undefined): Record<string, string> {
  context.hasIdHeader = true;
  const headers: Record<string, string> = { "X-Request-Id": context.requestId };
  if (context.model !== undefined) headers["X-Model"] = context.model.name;
  if (location !== undefined) headers.Location = location;
  return headers;
}
