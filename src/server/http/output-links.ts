/** Files among the outputs of ended predictions as links that expire, for clients that prefer them to data URIs. */

import { decodeDataUrl } from "../../author/data-url.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { EndedRecord } from "../predictions/record.ts";
import type { BucketValues } from "../queue/bucket-values.ts";

export interface OutputLinksOptions {
  readonly values: Pick<BucketValues, "link">;
  /** How long an ended prediction, and with it its links, can be read. */
  readonly retainS: number;
  readonly memory: MemoryAccount;
}

/** Clients may read what they were just told of, even where nothing is retained. */
const MIN_LINK_S = 60;
/** Media types are shorter. */
const MAX_HEAD = 200;

export class OutputLinks {
  readonly #options: OutputLinksOptions;

  constructor(options: OutputLinksOptions) {
    this.#options = options;
  }

  /**
   * The record with links in the places of all strings that are base64 data URIs; undefined where there are none, or the bucket cannot take them
   * now: a preference is no reason to withhold the outputs.
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

  /** @returns undefined where it only looks like a data URI */
  async #link({ id, finishedAtMs }: EndedRecord, part: string, uri: string): Promise<string | undefined> {
    const { values, retainS, memory } = this.#options;
    // Its text, decoded.
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

/** Where the strings of a JSON text are that look like base64 data URIs: none has a character that is escaped. */
function* dataUris(text: string): Generator<{ readonly start: number; readonly end: number }> {
  for (let quote = text.indexOf('"data:'); quote >= 0; quote = text.indexOf('"data:', quote + 1)) {
    if (!/^"data:[^",;\\]+;base64,/.test(text.slice(quote, quote + MAX_HEAD))) continue;
    const end = text.indexOf('"', quote + 1);
    // Neither the end of another string nor the name of a member.
    if (/[[:,]/.test(text.charAt(quote - 1)) && /[\],}]/.test(text.charAt(end + 1))) yield { start: quote + 1, end };
  }
}
