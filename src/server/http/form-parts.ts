/** The parts of a form (RFC 7578). Bun's FormData takes the media type of a file from its name, whatever type it came with. */

import { isEssence, mediaTypeOf } from "../../author/media-type.ts";
import { utf8 } from "../inputs/input-decoder.ts";
import { ProblemError } from "./problem.ts";

/** More empty parts than this in a large body would take seconds to read. */
const MAX_PARTS = 10_000;
/** Browsers send some 200 bytes; a file name may have a kilobyte. */
const MAX_HEAD_BYTES = 4 * 1024;
/** Of a Content-Disposition, which has three: `name`, `filename` and `filename*`. */
const MAX_PARAMETERS = 8;

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

/** Reads a part at a time. @throws SconceError `body_invalid`; ProblemError 400 or 413 */
export function* partsOf(bytes: Uint8Array<ArrayBuffer>, boundary: string): Generator<Part> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = `\r\n--${boundary}`;
  let count = 0;
  // There need be no line before the first.
  const first = body.indexOf(delimiter.slice(2));
  if (first < 0) throw notForm();
  for (let at = first + delimiter.length - 2; body.toString("latin1", at, at + 2) !== "--"; ) {
    const blank = body.indexOf("\r\n\r\n", at);
    // A part without content may have no line for it.
    const end = blank < 0 ? -1 : body.indexOf(delimiter, blank + 2);
    if (end < 0 || blank - at > MAX_HEAD_BYTES) throw notForm();
    if (++count > MAX_PARTS) throw formTooLarge(`${MAX_PARTS} parts`);
    yield partOf(body.toString("utf8", at, blank), bytes.subarray(blank + 4, Math.max(blank + 4, end)));
    at = end + delimiter.length;
  }
}

/** @param most as in "10000 parts" */
export function formTooLarge(most: string): ProblemError {
  return new ProblemError({ status: 413, code: "body_too_large", detail: `a form may have at most ${most}` });
}

function partOf(head: string, bytes: Uint8Array): Part {
  const [, disposition = ""] = /^content-disposition:\s*form-data(.*)$/im.exec(head) ?? [];
  const [, type = ""] = /^content-type:(.*)$/im.exec(head) ?? [];
  const pairs = disposition.matchAll(/;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))/g);
  const parameters = [...pairs.take(MAX_PARAMETERS + 1)];
  if (parameters.length > MAX_PARAMETERS) throw notForm();
  const names = new Map(parameters.map(([, key = "", quoted, plain = ""]) => [key.toLowerCase(), quoted ?? plain]));
  const name = names.get("name") ?? "";
  const { essence, parameters: typeParameters } = mediaTypeOf(type);
  const isJson = /^application\/(.+\+)?json$/.test(essence);
  const isText = essence === "" || essence.startsWith("text/") || isJson;
  if (isText && !names.has("filename") && !names.has("filename*")) return { name, value: utf8(bytes) };
  const mediaType = isEssence(essence) ? `${essence}${typeParameters}` : "application/octet-stream";
  return { name, value: { bytes, mediaType, isJson } };
}

function notForm(): ProblemError {
  const detail = "the body is not the form that its Content-Type announces";
  return new ProblemError({ status: 400, code: "body_unreadable", detail });
}
