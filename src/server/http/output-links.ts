/** Uploads files of outputs to a bucket and replaces them by links, for clients that send `Prefer: outputs=url`. */

import { decodeDataUrl } from "../../author/data-url.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { EndedRecord } from "../predictions/record.ts";
import type { BucketValues } from "../queue/bucket-values.ts";

export interface OutputLinksOptions {
  readonly values: Pick<BucketValues, "link">;
  /** Seconds that ended predictions are retained. Links are valid until then, and at least `MIN_LINK_S` seconds. */
  readonly retainS: number;
  readonly memory: MemoryAccount;
}

/** Minimum seconds that a link is valid. Predictions may be retained for less. */
const MIN_LINK_S = 60;
/** Maximum length of a data URI up to its comma. */
const MAX_HEAD = 200;

export class OutputLinks {
  readonly #options: OutputLinksOptions;

  constructor(options: OutputLinksOptions) {
    this.#options = options;
  }

  /**
   * Replaces each base64 data URI in the outputs by a link. @returns undefined without data URIs, or if the bucket fails. The client then gets the
   * data URIs themselves.
   */
  async linked(record: EndedRecord): Promise<EndedRecord | undefined> {
    const members = String(record.outcome.members);
    try {
      let [text, end] = ["", 0];
      for (const uri of dataUris(members)) {
        const link = await this.#link(record, `${uri.start}`, members.slice(uri.start, uri.end));
        if (link === undefined) continue;
        text += members.slice(end, uri.start) + link;
        end = uri.end;
      }
      if (end === 0) return undefined;
      return { ...record, outcome: { ...record.outcome, members: text + members.slice(end) } };
    } catch (error) {
      if (!(error instanceof SconceError)) throw error;
      logLimit.write("links", (...more) => log.warn(`Outputs went out without links: ${messageOf(error)}`, ...more));
      return undefined;
    }
  }

  /** Uploads one file. @returns its URL; undefined for an invalid data URI */
  async #link({ id, finishedAtMs }: EndedRecord, part: string, uri: string): Promise<string | undefined> {
    const { values, retainS, memory } = this.#options;
    using _charge = memory.add("answers", 2 * uri.length);
    let file: ReturnType<typeof decodeDataUrl>;
    try {
      file = decodeDataUrl(uri, uri.length);
    } catch {
      return undefined;
    }
    const leftS = retainS - (Date.now() - finishedAtMs) / 1000;
    return values.link(`files/${id}/${part}`, file, Math.max(MIN_LINK_S, leftS));
  }
}

/** Finds the base64 data URIs among the strings of a JSON text. JSON escapes none of their characters. */
function* dataUris(text: string): Generator<{ readonly start: number; readonly end: number }> {
  for (let quote = text.indexOf('"data:'); quote >= 0; quote = text.indexOf('"data:', quote + 1)) {
    if (!/^"data:[^",;\\]+;base64,/.test(text.slice(quote, quote + MAX_HEAD))) continue;
    const end = text.indexOf('"', quote + 1);
    // Skips a match that is not a whole string: its quote ends another string, or the string is the name of a member.
    if (/[[:,]/.test(text.charAt(quote - 1)) && /[\],}]/.test(text.charAt(end + 1))) yield { start: quote + 1, end };
  }
}
