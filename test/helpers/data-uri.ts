/** Files in data URIs. */

export function dataUri(bytes: Uint8Array, mediaType = "image/png"): string {
  return `data:${mediaType};base64,${bytes.toBase64()}`;
}

/** A file as a data URI. The extension decides the media type. */
export async function fileUri(path: string): Promise<string> {
  const file = Bun.file(path);
  return dataUri(await file.bytes(), file.type);
}

/** The bytes of a data URI in base64. */
export function bytesOfUri(uri: unknown): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64(String(uri).split(",")[1] ?? "");
}
