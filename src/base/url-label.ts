/** Short names of clients' URLs for messages and logs, without secrets. */

const maxLength = 100;
const maxDataLength = 40;

/**
 * Origin and path, cut to about 100 characters, without credentials, query or fragment. Of a data URI, only the
 * beginning.
 */
export function urlLabel(url: URL): string {
  if (url.protocol === "data:") return dataLabel(url.href);
  if (url.host === "") return url.protocol;
  return cut(`${url.protocol}//${url.host}${url.pathname}`, maxLength);
}

/** The first 40 characters of a data URI: its media type and the start of its content. */
export function dataLabel(uri: string): string {
  return cut(uri.slice(0, maxDataLength + 1), maxDataLength);
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
