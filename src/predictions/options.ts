/** The options of `serve` that stores, the queue and webhooks read. */

export interface RetentionOptions {
  /** Seconds that a finished prediction stays readable. */
  readonly retainAge: number;
  readonly retainBytes: number;
}

export interface StoreOptions extends RetentionOptions {
  readonly storeSync: "normal" | "full";
}

export interface QueueOptions extends RetentionOptions {
  readonly queueLease: number;
  /** Seconds that a prediction may take. */
  readonly timeout: number;
  readonly maxQueuedItems: number;
  readonly maxQueuedBytes: number;
  readonly webhookSecret: readonly string[];
}
