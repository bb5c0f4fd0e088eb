/** Where bodies and outcomes lie that are too large for Redis: elsewhere, under a name. Without such a place Redis takes them too. */

/** Values beyond this go there. */
export const LARGE_VALUE_BYTES = 2 ** 20;

export interface LargeValues {
  /**
   * Resolves when the value can be read by every replica.
   * @param name of letters, digits and `. : @ / _ -`; a value of the same name is replaced
   * @throws SconceError `queue_unavailable`
   */
  put(name: string, value: Uint8Array<ArrayBuffer> | string): Promise<void>;
  /** @returns undefined where there is none, or no longer; @throws SconceError `queue_unavailable` */
  get(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Nobody needs it any more; what is never deleted must expire by itself. Never throws. */
  delete(name: string): void;
}
