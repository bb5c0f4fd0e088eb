/** Reads forms in the format multipart/form-data (RFC 7578). Bun's FormData ignores the media type of a file, and guesses it from the file name. */

/** Maximum size of the headers of one part. Browsers send about 200 bytes; a file name may have a kilobyte. */
const MAX_HEAD_BYTES = 4 * 1024;
/** Maximum number of parameters of a Content-Disposition. Forms use three: `name`, `filename` and `filename*`. */
const MAX_PARAMETERS = 8;

export interface FormPart {
  readonly name: string;
  /** Undefined if the part is no file. Empty for a file field that the user left empty (HTML, "constructing the entry list"). */
  readonly filename: string | undefined;
  /** The Content-Type; empty without one. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** The boundary in a Content-Type; undefined if the type is not multipart/form-data. */
export function boundaryOf(mediaType: string): string | undefined {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(mediaType);
  return match?.[1] ?? match?.[2];
}

/** Reads the parts of a form. @throws SyntaxError */
export function* partsOf(bytes: Uint8Array<ArrayBuffer>, boundary: string): Generator<FormPart> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = `\r\n--${boundary}`;
  // No line break precedes the delimiter at the start of a body.
  const first = body.indexOf(delimiter.slice(2));
  if (first < 0) throw notForm();
  for (let at = first + delimiter.length - 2; body.toString("latin1", at, at + 2) !== "--"; ) {
    const blank = body.indexOf("\r\n\r\n", at);
    // The search begins at the last line break of the headers: in an empty part, the delimiter may begin there.
    const end = blank < 0 ? -1 : body.indexOf(delimiter, blank + 2);
    if (end < 0 || blank - at > MAX_HEAD_BYTES) throw notForm();
    yield partOf(body.toString("utf8", at, blank), bytes.subarray(blank + 4, Math.max(blank + 4, end)));
    at = end + delimiter.length;
  }
}

function partOf(head: string, bytes: Uint8Array): FormPart {
  const [, disposition = ""] = /^content-disposition:\s*form-data(.*)$/im.exec(head) ?? [];
  const [, type = ""] = /^content-type:(.*)$/im.exec(head) ?? [];
  const pairs = disposition.matchAll(/;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))/g);
  const parameters = [...pairs.take(MAX_PARAMETERS + 1)];
  if (parameters.length > MAX_PARAMETERS) throw notForm();
  const values = new Map(parameters.map(([, key = "", quoted, plain = ""]) => [key.toLowerCase(), quoted ?? plain]));
  return { name: values.get("name") ?? "", filename: values.get("filename") ?? values.get("filename*"), type, bytes };
}

function notForm(): SyntaxError {
  return new SyntaxError("the body is not the form that its Content-Type announces");
}
