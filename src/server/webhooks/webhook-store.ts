/** Where it is kept over restarts who is still to be told. */

/** A prediction. */
export interface WebhookKey {
  readonly id: string;
  /** Tells it from another that takes its id once it can be read no longer; undefined where that is not known. */
  readonly createdAtMs: number | undefined;
}

export interface WebhookStore {
  /** How many there are, where other processes tell some of them. */
  readonly count?: number;
  /**
   * Keeps whom to tell of a prediction, as text.
   * @throws SconceError `predictions_unwritable`
   */
  keep(id: string, webhook: string): Promise<void>;
  /** All of it was told, or given up. */
  forget(of: WebhookKey): void;
  /** What earlier processes with these owners have not told, oldest first. */
  left(owners: (owner: string) => boolean): Promise<readonly StoredWebhook[]>;
}

export interface StoredWebhook {
  /** Of the prediction. */
  readonly id: string;
  readonly webhook: string;
}
