/** Sends parts of an output, which the model yields before the whole output, as MCP progress notifications. */
import type { Text } from "../../../predictions/large-text.ts";
import type { Watched, Watcher } from "../../../predictions/predictions.ts";

/**
 * Maximum characters of a part in a notification. Longer parts, such as pictures, are only counted, because notifications for a slow client wait in
 * memory.
 */
const MAX_LENGTH = 4096;

export class PartProgress implements Watcher, Disposable {
  readonly #notify: (progress: number, message: string | undefined) => Promise<void>;
  #watched: Watched | undefined;
  #position = 0;
  #count = 0;
  #sending: Promise<void> = Promise.resolve();

  /** `notify` gets the number of parts so far and the text of the newest part; undefined for a long part. */
  constructor(notify: (progress: number, message: string | undefined) => Promise<void>) {
    this.#notify = notify;
  }

  begun(watched: Watched): void {
    this.#watched = watched;
  }

  readonly changed = (): void => {
    this.#sending = this.#sending.then(() => this.#send());
  };

  /** Sends the notifications that are left. The result of the call may only follow them. */
  async flush(): Promise<void> {
    this.changed();
    await this.#sending;
  }

  [Symbol.dispose](): void {
    this.#watched?.[Symbol.dispose]();
    this.#watched = undefined;
  }

  async #send(): Promise<void> {
    const parts = this.#watched?.parts;
    const next = () => parts?.next(this.#position, () => true);
    for (let at = next(); at !== undefined && this.#watched !== undefined; at = next()) {
      const text = parts?.at(at)?.text ?? "";
      this.#position = at + 1;
      this.#count += 1;
      // Ignores errors: sending fails if the client has disconnected, and then the call is canceled.
      await this.#notify(this.#count, messageOf(text)).catch(() => {});
    }
  }
}

/** The text of a progress notification. A string appears without quotes, another value as JSON. Undefined for a long part. */
function messageOf(text: Text): string | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const json = String(text);
  const part: unknown = JSON.parse(json);
  return typeof part === "string" ? part : json;
}
