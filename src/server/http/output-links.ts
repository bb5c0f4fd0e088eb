/** Replaces files in outputs by links to a bucket, for clients that send `Prefer: outputs=url`. */

import { decodeDataUrl } from "../../author/data-url.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { EndedRecord } from "../predictions/record.ts";
import type { BucketValues } from "../queue/bucket-values.ts";

export interface OutputLinksOptions {
  readonly values: Pick<BucketValues, "link">;
  /** How long ended predictions are retained, and links are valid. */
  readonly retainS: number;
  readonly memory: MemoryAccount;
}

/** A link works at least this long, also if predictions are not retained. */
const MIN_LINK_S = 60;
/** Longest beginning of a data URI, up to the comma. */
const MAX_HEAD = 200;

export class OutputLinks {
  readonly #options: OutputLinksOptions;

  constructor(options: OutputLinksOptions) {
    this.#options = options;
  }

  /**
   * Replaces each base64 data URI by a link. @returns undefined if the record has no data URI, or if the bucket fails: then the client gets
   * data URIs.
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

  /** @returns undefined for an invalid data URI */
  async #link({ id, finishedAtMs }: EndedRecord, part: string, uri: string): Promise<string | undefined> {
    const { values, retainS, memory } = this.#options;
    // The decoded text.
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

/** Finds the base64 data URIs in a JSON text. JSON escapes no character of a base64 data URI. */
function* dataUris(text: string): Generator<{ readonly start: number; readonly end: number }> {
  for (let quote = text.indexOf('"data:'); quote >= 0; quote = text.indexOf('"data:', quote + 1)) {
    if (!/^"data:[^",;\\]+;base64,/.test(text.slice(quote, quote + MAX_HEAD))) continue;
    const end = text.indexOf('"', quote + 1);
    // Skip a quote that ends a string, and names of members.
    if (/[[:,]/.test(text.charAt(quote - 1)) && /[\],}]/.test(text.charAt(end + 1))) yield { start: quote + 1, end };
  }
}
