/** The interface through which HTTP routes create, read and cancel predictions. */

import type { Sender } from "../flow/quarantine.ts";
import type { Body } from "../inputs/bodies.ts";
import type { InputValues } from "../inputs/input-decoder.ts";
import type { Charge } from "../memory/charge.ts";
import type { SpanIds } from "../telemetry/spans.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { Text } from "./large-text.ts";
import type { Once } from "./once.ts";
import type { PartLog } from "./part-log.ts";
import type { Kind, PredictionRecord } from "./record.ts";

/** The client of a request. */
export interface Client {
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** The client's address and name, for fair turns in the queue; undefined if the connection is closed. */
  readonly sender: Sender | undefined;
  /** Weight of the client's API key in the queue. With share 3, the client gets three turns while a client with share 1 gets one. */
  readonly share: number;
  /** Last characters of the ids of this client's predictions, which its API key determines. Empty without a key. */
  readonly idSuffix: string;
  /** Called when a long wait begins and when it ends. Meanwhile the idle timeout must not close the connection. */
  held(isHeld: boolean): void;
}

/** Facts about the HTTP request: its ids, for log lines and spans, and the format of outputs. */
export interface Origin extends SpanIds {
  readonly requestId: string;
  /** Names of output fields whose arrays are encoded as data URIs of their bytes. Undefined: all arrays become lists. */
  readonly byteFields?: readonly string[] | undefined;
}

/** The facts of a request that are known before the server reads its body. */
export interface AskedPrediction {
  /** Size of the body; 0 if the request does not announce it. */
  readonly bytes: number;
  /** Time limit that the client chose, in milliseconds. The server's limit applies too. */
  readonly timeoutMs: number | undefined;
  /** Milliseconds that the answer waits for the end. A client that disconnects meanwhile has no id, so the prediction is canceled. */
  readonly waitMs: number;
  readonly webhook?: Webhook | undefined;
  readonly client: Client;
}

export interface NewPrediction extends AskedPrediction {
  readonly kind: Kind;
  readonly body: Body | InputValues;
  /** Memory of the request. `create` frees it at the end of the prediction, and also when it throws. */
  readonly charge: Charge;
  readonly origin: Origin;
  /** Set if the client chose the id. A repeated request then returns the existing prediction, and a disconnect cancels nothing. */
  readonly once?: Once | undefined;
  /** Receives all changes of the prediction from its start on. */
  readonly watcher?: Watcher | undefined;
}

export interface Watcher {
  /** Called at each change of the prediction, like the argument of `Predictions.watch`. */
  readonly changed: () => void;
  /** Called once at the start, only if this process runs the prediction. */
  begun(watched: Watched): void;
}

export interface Predictions {
  /**
   * Refuses a request before its body is read, so that a refusal is cheap under overload.
   * @throws SconceError `queue_full`, `not_ready` or `webhook_refused`
   */
  admit(asked: AskedPrediction): void;
  /**
   * Creates a prediction with all inputs of the request, or throws. An unfinished prediction is in the store before its client gets the id.
   * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready` while the server stops, `predictions_unwritable` if the store
   * fails, `prediction_differs` if the client chose the id of a prediction with another body
   */
  create(request: NewPrediction): Promise<PredictionRecord>;
  /** @returns undefined if the id is unknown, too old, or belongs to the other kind of prediction */
  get(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /**
   * Ends a prediction as canceled. Does not change an ended prediction.
   * @returns the prediction; undefined in the same cases as `get`
   * @throws SconceError `not_ready` while the process of the prediction restarts
   */
  cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /** Like `get`, but waits for the end of the prediction, about `waitMs` milliseconds, or until the client disconnects. */
  wait(
    kind: Kind,
    id: string,
    options: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined>;
  /**
   * Subscribes to a prediction. @param changed called after the start, a part, an output, a log line, and the end; close changes may share a call
   * @returns undefined in the same cases as `get`
   */
  watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined>;
}

/** A subscription to the changes of a prediction. */
export interface Watched extends Disposable {
  /** The current state; undefined if the prediction no longer exists, or this process is stopping. */
  readonly record: PredictionRecord | undefined;
  /** Outputs before the end as JSON texts, by index of the input. */
  readonly outputs: readonly (Text | undefined)[];
  /** Parts that the model yields before an output; undefined if it yields none, or the prediction had ended before the subscription. */
  readonly parts?: PartLog | undefined;
  /** Resolves when the outcome is stored, so that clients may see it; undefined if they may see it at once. */
  readonly written?: () => Promise<void>;
}
