/** Which predictions have ended without anybody having read how: their clients are about to ask. */

import { OpenMap } from "../../base/collections/open-map.ts";
import { hashOf } from "./ids.ts";

/** Beyond this many, clients that ask are not what predictions are made for. */
const MAX_IDS = 10_000;

export class Unread {
  #ids = new OpenMap<string, true>(hashOf);
  #allRead: (() => void) | undefined;

  /** A prediction whose client was told the id, and not the outcome, has ended. */
  ended(id: string): void {
    if (this.#ids.size === MAX_IDS) this.#ids = new OpenMap(hashOf);
    this.#ids.set(id, true);
  }

  read(id: string): void {
    if (this.#ids.delete(id) && this.#ids.size === 0) this.#allRead?.();
  }

  /** Resolves when all were read, or after `maxMs`. */
  all(maxMs: number): Promise<void> {
    if (this.#ids.size === 0 || maxMs === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, maxMs);
      this.#allRead = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
