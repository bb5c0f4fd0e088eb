/** What routes know of predictions, wherever these run and are kept. */

import type { Sender } from "../flow/suspects.ts";
import type { Body } from "../inputs/bodies.ts";
import type { Charge } from "../memory/charge.ts";
import type { Webhook } from "../webhooks/webhook.ts";
import type { Text } from "./large-text.ts";
import type { Once } from "./once.ts";
import type { Kind, PredictionRecord } from "./record.ts";

/** Who waits for an answer. */
export interface Client {
  /** Fires when it leaves. */
  readonly signal: AbortSignal;
  /** Undefined for a request that came by no connection. */
  readonly sender: Sender | undefined;
  /** Told when its answer has begun to be held back for long, and when that ends: its connection is silent, but not idle. */
  held(isHeld: boolean): void;
}

/** The request that something came by, as log lines name it. */
export interface Origin {
  readonly requestId: string;
  /** Of the client's span, by W3C Trace Context. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
}

/** What is known of a prediction before its body is read. */
export interface AskedPrediction {
  /** Of the body; 0 where that is not announced. */
  readonly bytes: number;
  /** A client may ask for less than the server's time limit. */
  readonly timeoutMs: number | undefined;
  /** How long the answer may be held back for the end; a client that leaves meanwhile cancels, as it was never told the id. */
  readonly waitMs: number;
  readonly webhook?: Webhook | undefined;
}

export interface NewPrediction extends AskedPrediction {
  readonly kind: Kind;
  readonly body: Body;
  /** Memory that it takes until it has ended; given away with the call, however that ends. */
  readonly charge: Charge;
  readonly client: Client;
  readonly origin: Origin;
  /** Where its client chose the id: it is told of the prediction that there is, and one that leaves cancels nothing. */
  readonly once?: Once | undefined;
}

export interface Predictions {
  /**
   * Refuses at once what would be refused anyway: under overload most requests are, and reading their bodies would cost more than that.
   * @throws SconceError `queue_full`, `not_ready` or `webhook_refused`
   */
  admit(asked: AskedPrediction): void;
  /**
   * Accepts a prediction, all of it or nothing. One that has not ended when it is answered is kept: it outlives this process where the
   * store does.
   * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full` when there is no room now, `not_ready` when the server is
   *   stopping, `predictions_unwritable` when it cannot be kept, `prediction_differs` where the id that a client chose has another one
   */
  create(request: NewPrediction): Promise<PredictionRecord>;
  /** @returns undefined where there is none of this kind, or no longer */
  get(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /**
   * Ends a prediction; one that has ended stays as it is.
   * @throws SconceError `not_ready` for one whose process is starting again
   */
  cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /** As `get`, at the end of the prediction, after about `waitMs`, or when the client has left, whichever comes first. */
  wait(
    kind: Kind,
    id: string,
    options: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined>;
  /**
   * For one who reads along.
   * @param changed called soon after each change: begun, an output, a line of its logs, its end; several may be one call
   */
  watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined>;
}

/** A prediction that is watched until this is disposed. */
export interface Watched extends Disposable {
  /** As it stands; undefined once nobody here hears of it any more. */
  readonly record: PredictionRecord | undefined;
  /** Outputs as JSON texts, by index, as far as they are known here before the end. */
  readonly outputs: readonly (Text | undefined)[];
  /** Resolves when its end may be told; undefined where it always may. */
  readonly written?: () => Promise<void>;
}
