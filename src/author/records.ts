/** Limits the headers (chunks, segments) that a reader of files visits. */

/** Maximum headers before a file's content. A file of millions of empty headers would block the event loop. */
export const MAX_RECORDS = 65_536;

/** Thrown for a file with more headers than `MAX_RECORDS`. */
export class TooManyRecords extends Error {
  /** @param noun the format's word for its headers, in the plural */
  constructor(noun: string) {
    super(`it has more than ${MAX_RECORDS} ${noun} before its content`);
  }
}
