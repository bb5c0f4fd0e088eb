/** The part of an answer that a client asks for (RFC 9110, section 14). */
import { ProblemError } from "./problem.ts";

export interface ByteRange {
  readonly begin: number;
  /** The place behind the last byte. */
  readonly end: number;
}

/**
 * @returns undefined where the whole is meant: nothing else was asked for, or several parts, or parts of what has changed
 * @throws ProblemError 416 where there are no such bytes
 */
export function byteRangeOf(headers: Headers, size: number, etag: string): ByteRange | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(headers.get("range")?.trim() ?? "") ?? [];
  if (!first && !last) return undefined;
  if ((headers.get("if-range") ?? etag) !== etag) return undefined;
  const begin = first ? Number(first) : Math.max(0, size - Number(last));
  const end = first && last ? Math.min(size, Number(last) + 1) : size;
  if (begin < end) return { begin, end };
  // A range that ends before it begins is none.
  if (first && last && Number(last) < begin) return undefined;
  throw new ProblemError({
    status: 416,
    code: "range_not_satisfiable",
    detail: `there are ${size} bytes, and none of those that were asked for`,
    headers: { "Content-Range": `bytes */${size}` },
  });
}
