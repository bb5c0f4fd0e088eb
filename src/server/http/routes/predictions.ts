/** The routes of predictions and demo predictions: they translate between HTTP and `Predictions`. */

import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Sender } from "../../flow/suspects.ts";
import type { InputDecoder } from "../../inputs/input-decoder.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { onceOf } from "../../predictions/once.ts";
import type { AskedPrediction, Client, Predictions, Watched } from "../../predictions/predictions.ts";
import { hasEnded, type PredictionRecord } from "../../predictions/record.ts";
import { bodyOf } from "../body.ts";
import { announcedBytes, readBody } from "../body-reader.ts";
import { checkChosenId, idOfKey } from "../chosen-id.ts";
import { END_ID, EventStream } from "../event-stream.ts";
import { type Family, families } from "../families.ts";
import { LARGE_ANSWER_LENGTH, LargeAnswers, noMemory } from "../large-answers.ts";
import type { Peer } from "../listener.ts";
import type { OutputLinks } from "../output-links.ts";
import { cancelAfterMsOf, OUTPUTS_AS_LINKS, prefersLinks, waitMsOf } from "../prefer.ts";
import { unknownPrediction } from "../problem.ts";
import { recordJson } from "../record-json.ts";
import { contextOf, type RequestContext } from "../request-context.ts";
import type { Siblings } from "../siblings.ts";
import { Uploads } from "../uploads.ts";
import { webhookOf } from "../webhook-headers.ts";

/** Told when an answer has begun to be held back for long, and when that ends: its connection is silent, but not idle. */
type OnHold = (request: Request, isHeld: boolean) => void;

type PeerOf = (request: Request) => Peer | undefined;

/** Characters of `X-Forwarded-For` that tell clients apart. */
const MAX_FORWARDED = 200;

export interface PredictionRoutes {
  readonly predictions: Predictions;
  /** The other fronts of this server, which may have a prediction that this one is asked for. */
  readonly siblings?: Siblings | undefined;
  readonly maxBodyBytes: number;
  readonly decoder: Pick<InputDecoder, "expected">;
  /** For clients that prefer links to data URIs; undefined where there is no bucket. */
  readonly links?: OutputLinks | undefined;
  readonly memory: MemoryAccount;
  readonly onHold?: OnHold;
  readonly peerOf?: PeerOf;
}

interface Asked extends AskedPrediction {
  readonly asksForEvents: boolean;
  /** The id, where the client chose it. */
  readonly chosen?: string;
}

export function addPredictionRoutes(app: OpenAPIHono, options: PredictionRoutes): void {
  const { predictions, siblings, memory, links, decoder, onHold = () => {}, peerOf = () => undefined } = options;
  const bodyLimits = { maxBytes: options.maxBodyBytes, memory, uploads: new Uploads(), decoder };
  const large = new LargeAnswers(memory);
  // The same ids have other texts there.
  const largeLinked = new LargeAnswers(memory);
  const isPlain = (raw: Request) => links === undefined || !prefersLinks(raw.headers.get("prefer"));
  const preferred = (
    family: Family,
    record: PredictionRecord | undefined,
    raw: Request,
    context: RequestContext,
    location?: string,
  ): Response | Promise<Response> => {
    if (links === undefined || isPlain(raw) || record === undefined || !hasEnded(record)) {
      return answer(family, record, large, context, location);
    }
    return links.linked(record).then((linked) => {
      if (linked === undefined) return answer(family, record, large, context, location);
      const response = answer(family, linked, largeLinked, context, location);
      response.headers.set("Preference-Applied", OUTPUTS_AS_LINKS);
      return response;
    });
  };
  const events = async (
    family: Family,
    id: string,
    raw: Request,
    { context, made, isKnown = made === undefined }: Streamed,
  ): Promise<Response> => {
    const { kind, path } = family;
    const lastEventId = made === undefined ? raw.headers.get("last-event-id") : null;
    if (lastEventId === END_ID) return new Response(null, { status: 204 });
    // Its reader may be silent while nothing happens, and no longer.
    const onOver = () => onHold(raw, false);
    const onEnd = (hasLeft: boolean) => {
      onOver();
      // As with `Prefer: wait`: nobody else was told the id, or is told of the end. What has ended stays as it is.
      if (hasLeft && !isKnown) predictions.cancel(kind, id).catch(() => {});
    };
    const stream = new EventStream({ family, lastEventId, large, memory, onOver, onEnd });
    const watched = (await predictions.watch(kind, id, stream.changed)) ?? endOf(made);
    if (watched === undefined) throw unknownPrediction();
    onHold(raw, true);
    const body = stream.body(watched);
    // Nobody reads it, nor would ever cancel it: its client is gone.
    if (raw.signal.aborted) await body.cancel();
    const location = made === undefined ? {} : { Location: `${path}/${id}` };
    context.isNamed = true;
    const headers = { ...eventHeaders, ...location, "X-Request-Id": context.requestId };
    return new Response(body, { headers });
  };
  for (const family of families) {
    const { path, kind } = family;
    const create = async (raw: Request, origin: RequestContext, asked: Asked) => {
      const { chosen, timeoutMs, waitMs, webhook } = asked;
      const { body, bytes, charge } = await readBody(raw, bodyLimits);
      const client = new RequestClient(raw, { onHold, peerOf });
      const once = chosen === undefined ? undefined : await onceOf(chosen, kind, body);
      const record = await predictions.create({
        kind,
        body,
        bytes,
        charge,
        timeoutMs,
        waitMs,
        webhook,
        client,
        origin,
        once,
      });
      if (asked.asksForEvents) {
        return events(family, record.id, raw, {
          context: origin,
          made: record,
          isKnown: once !== undefined || asked.webhook !== undefined,
        });
      }
      return preferred(family, record, raw, origin, `${path}/${record.id}`);
    };

    const createOnce = async (raw: Request, origin: RequestContext, asked: Asked & { readonly chosen: string }) =>
      (await siblings?.forward(asked.chosen, raw, origin)) ?? create(raw, origin, asked);

    // Not asynchronous: of a server under overload most requests end here, and a promise would cost as much as all else.
    app.post(path, (c) => {
      const { headers } = c.req.raw;
      const asked = askedOf(c.req.raw);
      const key = headers.get("idempotency-key");
      // Where it was accepted before, there need not be room for it now.
      if (key !== null) return createOnce(c.req.raw, contextOf(c), { ...asked, chosen: idOfKey(key, path) });
      // What is too large is told so: it need not come again later.
      if (asked.bytes <= bodyLimits.maxBytes) predictions.admit(asked);
      return create(c.req.raw, contextOf(c), asked);
    });

    app.put(`${path}/:id`, (c) => {
      const { raw } = c.req;
      return createOnce(raw, contextOf(c), { ...askedOf(raw), chosen: checkChosenId(c.req.param("id")) });
    });

    app.get(`${path}/:id`, async (c) => {
      const { raw } = c.req;
      const id = c.req.param("id");
      const waitMs = waitMsOf(raw.headers.get("prefer"));
      const client = new RequestClient(raw, { onHold, peerOf });
      const forwarded = await siblings?.forward(id, raw, contextOf(c));
      if (forwarded !== undefined) return forwarded;
      if (asksForEvents(raw)) return events(family, id, raw, { context: contextOf(c) });
      const shared = isPlain(raw) ? large.streamOf(id, family) : undefined;
      if (shared !== undefined) return jsonResponse(shared, contextOf(c));
      return preferred(family, await predictions.wait(kind, id, { waitMs, client }), raw, contextOf(c));
    });

    // The same by a path of its own: in clients that are generated an operation has one kind of answer.
    app.get(`${path}/:id/events`, async (c) => {
      const id = c.req.param("id");
      const forwarded = await siblings?.forward(id, c.req.raw, contextOf(c));
      return forwarded ?? events(family, id, c.req.raw, { context: contextOf(c) });
    });

    app.post(`${path}/:id/cancel`, async (c) => {
      const id = c.req.param("id");
      const forwarded = await siblings?.forward(id, c.req.raw, contextOf(c));
      return forwarded ?? answer(family, await predictions.cancel(kind, id), large, contextOf(c));
    });
  }
}

interface Streamed {
  readonly context: RequestContext;
  /** By this request. */
  readonly made?: PredictionRecord;
  /** Whether its client has the id from elsewhere. */
  readonly isKnown?: boolean;
}

/** Proxies must neither keep events, nor hold them back, nor compress them. */
const eventHeaders = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
};

/** Who likes JSON better names it first. */
function asksForEvents({ headers }: Request): boolean {
  return headers.get("accept")?.startsWith("text/event-stream") ?? false;
}

/** Of one that ended before it was watched, where nothing is retained. */
function endOf(record: PredictionRecord | undefined): Watched | undefined {
  return record && hasEnded(record) ? { record, outputs: [], [Symbol.dispose]() {} } : undefined;
}

function askedOf(raw: Request): Asked {
  const { headers } = raw;
  const isForEvents = asksForEvents(raw);
  return {
    bytes: announcedBytes(headers) ?? 0,
    timeoutMs: cancelAfterMsOf(headers.get("cancel-after")),
    waitMs: isForEvents ? 0 : waitMsOf(headers.get("prefer")),
    webhook: webhookOf(headers),
    asksForEvents: isForEvents,
  };
}

type ClientOptions = Required<Pick<PredictionRoutes, "onHold" | "peerOf">>;

/** A class, as the signal of a request is made when it is asked for. */
class RequestClient implements Client {
  readonly #request: Request;
  readonly #options: ClientOptions;

  constructor(request: Request, options: ClientOptions) {
    this.#request = request;
    this.#options = options;
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }

  get sender(): Sender | undefined {
    const peer = this.#options.peerOf(this.#request);
    // What the last proxies wrote is at the end, where no client can write.
    const forwarded = this.#request.headers.get("x-forwarded-for")?.slice(-MAX_FORWARDED);
    return peer && { address: peer.address, name: forwarded ?? String(peer.port) };
  }

  held(isHeld: boolean): void {
    this.#options.onHold(this.#request, isHeld);
  }
}

function answer(
  family: Family,
  record: PredictionRecord | undefined,
  large: LargeAnswers,
  context: RequestContext,
  location?: string,
): Response {
  if (record === undefined) throw unknownPrediction();
  if (!hasEnded(record) || record.outcome.members.length < LARGE_ANSWER_LENGTH) {
    return jsonResponse(bodyOf(recordJson(record, family)), context, location);
  }
  // Who has just made it is not sent away: what it took meanwhile was given back.
  if (location === undefined && !large.hasRoomFor(`${family.path}/${record.id}`, record.outcome.members.length)) {
    throw noMemory();
  }
  return jsonResponse(large.stream(record, family), context, location);
}

function jsonResponse(body: string | ReadableStream<Uint8Array>, context: RequestContext, location?: string): Response {
  // Given with the others a header costs less than one that is set later.
  context.isNamed = true;
  const { requestId } = context;
  const headers =
    location === undefined
      ? { "Content-Type": "application/json", "X-Request-Id": requestId }
      : { "Content-Type": "application/json", "X-Request-Id": requestId, Location: location };
  return new Response(body, { headers });
}
