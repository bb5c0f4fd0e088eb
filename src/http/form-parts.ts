/** The parts of a form (RFC 7578). Bun's FormData takes the media type of a file from its name, whatever type it came with. */
import { utf8 } from "../inputs/input-decoder.ts";
import { isEssence, mediaTypeOf } from "../model/media-type.ts";
import { ProblemError } from "./problem.ts";

/** Each is a file or a text of its own: what can be made of 64 MB of empty ones would hold the server for seconds. */
const MAX_PARTS = 10_000;
const MAX_HEAD_BYTES = 16 * 1024;

export interface FilePart {
  readonly bytes: Uint8Array;
  /** With its parameters. */
  readonly mediaType: string;
  readonly isJson: boolean;
}

export interface Part {
  /** "" where there is none. */
  readonly name: string;
  readonly value: string | FilePart;
}

/** The boundary of a form; undefined for another media type. */
export function boundaryOf(mediaType: string): string | undefined {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(mediaType);
  return match?.[1] ?? match?.[2];
}

/** @throws SconceError `body_invalid`; ProblemError 400 or 413 */
export function partsOf(bytes: Uint8Array<ArrayBuffer>, boundary: string): Part[] {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = `\r\n--${boundary}`;
  const parts: Part[] = [];
  // There need be no line before the first.
  const first = body.indexOf(delimiter.slice(2));
  if (first < 0) throw notForm();
  for (let at = first + delimiter.length - 2; body.toString("latin1", at, at + 2) !== "--"; ) {
    const blank = body.indexOf("\r\n\r\n", at);
    // A part without content may have no line for it.
    const end = blank < 0 ? -1 : body.indexOf(delimiter, blank + 2);
    if (end < 0 || blank - at > MAX_HEAD_BYTES) throw notForm();
    if (parts.length === MAX_PARTS) {
      const detail = `a form may have at most ${MAX_PARTS} parts`;
      throw new ProblemError({ status: 413, code: "body_too_large", detail });
    }
    parts.push(partOf(body.toString("utf8", at, blank), bytes.subarray(blank + 4, Math.max(blank + 4, end))));
    at = end + delimiter.length;
  }
  return parts;
}

function partOf(head: string, bytes: Uint8Array): Part {
  const [, disposition = ""] = /^content-disposition:\s*form-data(.*)$/im.exec(head) ?? [];
  const [, type = ""] = /^content-type:(.*)$/im.exec(head) ?? [];
  const pairs = disposition.matchAll(/;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))/g);
  const names = new Map(Array.from(pairs, ([, key = "", quoted, plain = ""]) => [key.toLowerCase(), quoted ?? plain]));
  const name = names.get("name") ?? "";
  const { essence, parameters } = mediaTypeOf(type);
  const isJson = /^application\/(.+\+)?json$/.test(essence);
  const isText = essence === "" || essence.startsWith("text/") || isJson;
  if (isText && !names.has("filename") && !names.has("filename*")) return { name, value: utf8(bytes) };
  const mediaType = isEssence(essence) ? `${essence}${parameters}` : "application/octet-stream";
  return { name, value: { bytes, mediaType, isJson } };
}

function notForm(): ProblemError {
  const detail = "the body is not the form that its Content-Type announces";
  return new ProblemError({ status: 400, code: "body_unreadable", detail });
}
