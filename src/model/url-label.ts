/** How a client's URL is named in messages and logs: without what may be secret, and short. */

const maxLength = 100;
const maxDataLength = 40;

/** Origin and path, cut to about 100 characters; never credentials, query or fragment. Of a data URI only its beginning. */
export function urlLabel(url: URL): string {
  if (url.protocol === "data:") return dataLabel(url.href);
  if (url.host === "") return url.protocol;
  return cut(`${url.protocol}//${url.host}${url.pathname}`, maxLength);
}

/** The media type of a data URI and the first characters of its content. */
export function dataLabel(uri: string): string {
  return cut(uri.slice(0, maxDataLength + 1), maxDataLength);
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
