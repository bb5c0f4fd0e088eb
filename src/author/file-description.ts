/** Default descriptions of file fields. Each begins with `URL of`, so that the page can replace it by another text. */
import type { FileMark } from "../base/schemas/json-schema.ts";

export const imageDescription =
  "URL of a JPEG, PNG, WebP, GIF or BMP image: http, https or data (data:image/png;base64,…)";

const soundFormats = { flac: "FLAC", mp3: "MP3", vorbis: "Ogg Vorbis", opus: "Ogg Opus" } as const;
type Decoders = { readonly [format in keyof typeof soundFormats]?: unknown };

/** The readable formats as a text, such as `WAV, FLAC or Ogg Opus`. */
export function audioFormats(decoders: Decoders): string {
  const formats = Object.entries({ ...soundFormats }).flatMap(([format, name]) =>
    new Map<string, unknown>(Object.entries(decoders)).get(format) === undefined ? [] : [name],
  );
  const last = formats.pop();
  return last === undefined ? "WAV" : `${["WAV", ...formats].join(", ")} or ${last}`;
}

export function audioDescription(decoders: Decoders): string {
  return `URL of a sound (${audioFormats(decoders)}): http, https or data (data:audio/wav;base64,…)`;
}

export function fileDescription({ mediaTypes }: FileMark): string {
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  return `URL of a file${kinds}: http, https or data (data:…;base64,…)`;
}
