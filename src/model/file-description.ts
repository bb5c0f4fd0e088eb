/** The default descriptions of fields that hold files. The page shows other words in their place, but never for an author's description. */
import type { FileMark } from "../json-schema.ts";

export const imageDescription =
  "URL of a JPEG, PNG, WebP, GIF or BMP image: http, https or data (data:image/png;base64,…)";

export function fileDescription({ mediaTypes }: FileMark): string {
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  return `URL of a file${kinds}: http, https or data (data:…;base64,…)`;
}
