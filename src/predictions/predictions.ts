/** The interface through which HTTP routes create, read and cancel predictions. */

import type { Sender } from "../pipeline/client.ts";
import type { Body } from "../pipeline/inputs/body.ts";
import type { InputValues } from "../pipeline/inputs/input-decoder.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { SpanIds } from "../pipeline/spans.ts";
import type { Text } from "./large-text.ts";
import type { Once } from "./once.ts";
import type { PartLog } from "./part-log.ts";
import type { Kind, PredictionRecord } from "./record.ts";
import type { Webhook } from "./webhooks/webhook.ts";

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
  /** Reserves a place for a prediction within the limits of the client's API key, once for each request. @throws SconceError `key_limit` */
  reserve(): void;
  /** Gives the place back: the prediction has begun and counts itself, or it does not begin. */
  release(): void;
  /** Called when a long wait begins and ends, so that the idle timeout does not close the connection meanwhile. */
  held(isHeld: boolean): void;
}

/** Facts about an HTTP request: ids for log lines and spans, and the form of outputs. */
export interface Origin extends SpanIds {
  readonly requestId: string;
  /** Output fields whose arrays are encoded as data URIs of their bytes. If undefined, all arrays become JSON lists. */
  readonly byteFields?: readonly string[] | undefined;
}

/** The facts of a request that are known before its body is read. */
export interface AskedPrediction {
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
}

export interface NewPrediction extends AskedPrediction {
  readonly kind: Kind;
  readonly body: Body | InputValues;
  /** Memory of the request. `create` frees it when it throws, or at the end of the prediction. */
  readonly charge: Charge;
  readonly origin: Origin;
  /** Set if the client chose the id: a repeated request gets the same prediction, and a disconnect cancels nothing. */
  readonly once?: Once | undefined;
  /** Receives all changes of the prediction from its start on. */
  readonly watcher?: Watcher | undefined;
}

export interface Watcher {
  /** Called at each change of the prediction: start, piece of an output, output, log line, end. */
  readonly changed: () => void;
  /** Called once at the start, if this process runs the prediction. */
  begun(watched: Watched): void;
}

export interface Predictions {
  /**
   * Refuses a request before its body is read, which keeps refusals cheap under overload.
   * Reserves a place for the client.
   * @throws SconceError `queue_full`, `not_ready`, `webhook_refused` or `key_limit`
   */
  admit(asked: AskedPrediction): void;
  /**
   * Creates a prediction with all inputs of the request, or throws. An unfinished prediction is in the store before its
   * client gets the id.
   * @throws SconceError errors of `admit`; `body_invalid`, `inputs_invalid`, `predictions_unwritable` if the store
   * fails, `prediction_differs` if the client chose the id of a prediction with another body
   */
  create(request: NewPrediction): Promise<PredictionRecord>;
  /**
   * Reads a prediction.
   * @returns undefined if the id is unknown, too old, or of the other kind of prediction
   */
  get(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /**
   * Ends a prediction as canceled, unless it has ended.
   * @returns the prediction; undefined in the cases of `get`
   * @throws SconceError `not_ready` while the process of the prediction restarts
   */
  cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /** Like `get`, but first waits for the end, `waitMs` milliseconds, or until the client disconnects. */
  wait(
    kind: Kind,
    id: string,
    options: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined>;
  /**
   * Subscribes to a prediction.
   * @param changed called after the start, a piece of an output, an output, a log line, and the end; one call may
   * report several changes
   * @returns undefined in the cases of `get`
   */
  watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined>;
}

/** A subscription to the changes of a prediction. */
export interface Watched extends Disposable {
  /** The prediction now; undefined if it no longer exists, or this process is stopping. */
  readonly record: PredictionRecord | undefined;
  /** Outputs so far, as JSON texts by index of the input; empty after the end. */
  readonly outputs: readonly (Text | undefined)[];
  /** Pieces of outputs that the model yields early. Undefined without such pieces, or if the prediction had ended. */
  readonly parts?: PartLog | undefined;
  /** Resolves when the outcome is stored. Clients must not see it before. Undefined if it may be shown at once. */
  readonly written?: () => Promise<void>;
}
