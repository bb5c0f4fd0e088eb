/** A request for a prediction: as a client sends it, and as stores and processes pass it on. */

import type { ModelVersion } from "../package/model-version.ts";
import type { Sender } from "../pipeline/client.ts";
import type { Body, DecodedBody } from "../pipeline/inputs/body.ts";
import type { InputValues } from "../pipeline/inputs/input-decoder.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { SpanIds } from "../pipeline/spans.ts";
import type { Kind } from "./record.ts";
import type { Watcher } from "./watched.ts";
import type { Webhook } from "./webhooks/webhook.ts";

/** A request that the server has accepted: plain data, from which any process can run the prediction. */
export interface PredictionRequest {
  readonly id: string;
  readonly kind: Kind;
  /** Number of inputs in the body. */
  readonly count: number;
  readonly createdAtMs: number;
  /** Time limit in milliseconds, from the creation on. */
  readonly timeoutMs: number;
  /** A JSON list of inputs that match the schema. */
  readonly body: DecodedBody["body"];
  /** Digest of the kind and the body; set if the client chose the id. */
  readonly digest?: string | undefined;
  readonly origin?: Origin | undefined;
  /** The version of the model that accepted the request. Undefined in a Redis queue, and for old releases. */
  readonly model?: ModelVersion | undefined;
  readonly webhook?: Webhook | undefined;
  /** Whether a client waits for the outcome. */
  readonly isWaitedFor?: boolean;
  /** Whether an event stream watches the prediction from its start on. */
  readonly isWatched?: boolean;
}

/** Facts about an HTTP request: ids for log lines and spans, and the form of outputs. */
export interface Origin extends SpanIds {
  readonly requestId: string;
  /** Output fields whose arrays are encoded as data URIs of their bytes. If undefined, all arrays become JSON lists. */
  readonly byteFields?: readonly string[] | undefined;
}

export interface Client {
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /**
   * The client's API key or address, and its name behind a proxy, by which clients take turns in the queue. Undefined
   * without a key after a disconnect.
   */
  readonly sender: Sender | undefined;
  /** Weight of the client's API key in the queue: share 3 gets three turns for each turn of share 1. */
  readonly share: number;
  /** End of the ids of this client's predictions, which its API key determines; empty without a key. */
  readonly idSuffix: string;
  /** Called when a long wait begins and ends, so that the idle timeout does not close the connection meanwhile. */
  held(isHeld: boolean): void;
}

/** A client's request, before it has an id. */
export interface NewPrediction {
  readonly kind: Kind;
  readonly body: Body | InputValues;
  /** Size of the body; 0 if the request does not announce it. */
  readonly bytes: number;
  /** Time limit of the prediction that the client chose, in milliseconds. The server's limit also applies. */
  readonly timeoutMs: number | undefined;
  /**
   * Milliseconds that the answer waits for the prediction's end. A disconnect meanwhile cancels the prediction, unless
   * the client chose the id or a webhook gets the outcome.
   */
  readonly waitMs: number;
  readonly webhook?: Webhook | undefined;
  readonly client: Client;
  /** Memory of the request. `create` frees it when it throws, or at the end of the prediction. */
  readonly charge: Charge;
  readonly origin: Origin;
  /** Set if the client chose the id: a repeated request gets the same prediction, and a disconnect cancels nothing. */
  readonly once?: Once | undefined;
  /** Receives all changes of the prediction from its start on. */
  readonly watcher?: Watcher | undefined;
}

/** The facts of a client's request that are known before its body is read. */
export type AskedPrediction = Pick<NewPrediction, "bytes" | "timeoutMs" | "waitMs" | "webhook" | "client">;

/** The id that a client has chosen for its prediction. */
export interface Once {
  readonly id: string;
  /** SHA-256 of the kind and the body. The body of a repeated request must be the same. */
  readonly digest: string;
}

/** The body of a request as stores keep it. */
export function storedBody({ body }: Pick<PredictionRequest, "body">): string | Uint8Array<ArrayBuffer> {
  return typeof body === "function" ? body() : body;
}

/** The facts about an HTTP request that stores keep. The object itself may have further members. */
export function storedOrigin(origin: Origin | undefined): Origin | undefined {
  if (origin === undefined) return undefined;
  const { requestId, traceId, spanId, isSampled, tracestate, byteFields } = origin;
  return { requestId, traceId, spanId, isSampled, tracestate, byteFields };
}
