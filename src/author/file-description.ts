/**
 * Default descriptions of file fields. The web page shows other texts in their place, but keeps an author's own
 * description.
 */
import type { FileMark } from "../base/json-schema.ts";

export const imageDescription =
  "URL of a JPEG, PNG, WebP, GIF or BMP image: http, https or data (data:image/png;base64,…)";

interface Decoders {
  readonly mp3?: unknown;
  readonly vorbis?: unknown;
}

/** The readable formats as a text, such as `WAV, FLAC or Ogg Opus`. */
export function audioFormats({ mp3, vorbis }: Decoders): string {
  const others = [...(mp3 ? ["MP3"] : []), ...(vorbis ? ["Ogg Vorbis"] : [])];
  return `${["WAV", "FLAC", ...others].join(", ")} or Ogg Opus`;
}

export function audioDescription(decoders: Decoders): string {
  return `URL of a sound (${audioFormats(decoders)}): http, https or data (data:audio/wav;base64,…)`;
}

export const audioDescriptions: readonly string[] = [
  {},
  { mp3: true },
  { vorbis: true },
  { mp3: true, vorbis: true },
].map(audioDescription);

export function fileDescription({ mediaTypes }: FileMark): string {
  const kinds = mediaTypes.length > 0 ? ` (${mediaTypes.join(", ")})` : "";
  return `URL of a file${kinds}: http, https or data (data:…;base64,…)`;
}
