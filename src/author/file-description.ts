/** Default descriptions of file fields. The web page replaces these texts, but not an author's own description. */
import type { FileMark } from "../base/json-schema.ts";

export const imageDescription =
  "URL of a JPEG, PNG, WebP, GIF or BMP image: http, https or data (data:image/png;base64,…)";

export const audioDescription = "URL of a WAV or FLAC sound: http, https or data (data:audio/wav;base64,…)";

export function fileDescription({ mediaTypes }: FileMark): string {
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  return `URL of a file${kinds}: http, https or data (data:…;base64,…)`;
}
