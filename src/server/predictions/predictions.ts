/** The interface of predictions for the HTTP routes. */

import type { Sender } from "../flow/quarantine.ts";
import type { Body } from "../inputs/bodies.ts";
import type { InputValues } from "../inputs/input-decoder.ts";
import type { Charge } from "../memory/charge.ts";
import type { SpanIds } from "../telemetry/tracing.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { Text } from "./large-text.ts";
import type { Once } from "./once.ts";
import type { PartLog } from "./part-log.ts";
import type { Kind, PredictionRecord } from "./record.ts";

/** The client of a request. */
export interface Client {
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** Undefined for a request without a connection. */
  readonly sender: Sender | undefined;
  /** End of the ids of this client's predictions: its API key adds it. Empty without a key. */
  readonly idSuffix: string;
  /** Called when a long wait begins and ends: the silent connection must not be closed meanwhile. */
  held(isHeld: boolean): void;
}

/** The HTTP request of a prediction: its ids for log lines, and the form of its outputs. */
export interface Origin extends SpanIds {
  readonly requestId: string;
  /** Output fields whose arrays become data URIs of their bytes; undefined for none. */
  readonly byteFields?: readonly string[] | undefined;
}

/** Properties of a request that are known before its body is read. */
export interface AskedPrediction {
  /** Bytes of the body; 0 for an unannounced size. */
  readonly bytes: number;
  /** Time limit of the client; the server's limit applies too. */
  readonly timeoutMs: number | undefined;
  /** Longest wait for the end. A client that disconnects meanwhile cancels the prediction, because it has no id. */
  readonly waitMs: number;
  readonly webhook?: Webhook | undefined;
  readonly client: Client;
}

export interface NewPrediction extends AskedPrediction {
  readonly kind: Kind;
  readonly body: Body | InputValues;
  /** Memory of the request until its end. `create` disposes it in every case. */
  readonly charge: Charge;
  readonly origin: Origin;
  /** Set for an id that the client chose. A second request gets the existing prediction, and a disconnect cancels nothing. */
  readonly once?: Once | undefined;
  /** Watches the prediction from its first moment on. */
  readonly watcher?: Watcher | undefined;
}

export interface Watcher {
  /** As the argument of `Predictions.watch`. */
  readonly changed: () => void;
  /** Called when the prediction begins, if this process runs it. */
  begun(watched: Watched): void;
}

export interface Predictions {
  /**
   * Refuses a request before its body is read, which makes refusals cheap under overload.
   * @throws SconceError `queue_full`, `not_ready` or `webhook_refused`
   */
  admit(asked: AskedPrediction): void;
  /**
   * Accepts all inputs of a request or none. An unfinished prediction is in the store before its client has the id.
   * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready` while the server stops, `predictions_unwritable` for a failing
   *   store, `prediction_differs` for a client-chosen id of another body
   */
  create(request: NewPrediction): Promise<PredictionRecord>;
  /** @returns undefined for an unknown or expired id, and for the id of another kind */
  get(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /**
   * Ends a prediction; an ended one stays as it is.
   * @throws SconceError `not_ready` while the process of the prediction restarts
   */
  cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /** Like `get`, after the end of the prediction, after about `waitMs`, or when the client disconnects. */
  wait(
    kind: Kind,
    id: string,
    options: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined>;
  /** @param changed called soon after the start, a part, an output, a log line, and the end; one call may stand for several changes */
  watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined>;
}

/** A subscription to a prediction. */
export interface Watched extends Disposable {
  /** The newest record. Undefined when the prediction no longer exists, or when this process stops. */
  readonly record: PredictionRecord | undefined;
  /** The JSON texts of outputs before the end, by index. */
  readonly outputs: readonly (Text | undefined)[];
  /** The parts of outputs since the start. Undefined without parts, and for a prediction that ended before it was watched. */
  readonly parts?: PartLog | undefined;
  /** Resolves when clients may see the outcome. Undefined means at once. */
  readonly written?: () => Promise<void>;
}
