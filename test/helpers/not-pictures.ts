/** Files that people upload as pictures although they are no pictures, or pictures of an unsupported kind. */

const bytes = (...parts: readonly (string | number | Uint8Array)[]) =>
  Buffer.concat(
    parts.map((part) =>
      typeof part === "number" ? Buffer.alloc(part) : typeof part === "string" ? Buffer.from(part, "latin1") : part,
    ),
  );

/** First bytes of a file, by its kind. */
export const notPictures: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  "WAV sound": bytes(
    "RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x10\0\0\0",
    16,
  ),
  "MP3 sound": bytes("ID3\x04\0\0\0\0\0\0", "\xff\xfb\x90\x64", 413),
  "Ogg sound": bytes("OggS\0\x02", 20, "\x01\x1e\x01vorbis", 22),
  "FLAC sound": bytes("fLaC\0\0\0\x22", 34),
  "an MP4 film": bytes("\0\0\0\x18ftypmp42\0\0\0\0mp42isom", 100),
  "a text": bytes("just a text ".repeat(20)),
  "one letter": bytes("P"),
  "nothing but zeros": bytes(1000),
  "an HTML page": bytes("<!doctype html><title>Sign in</title><p>Please sign in to see this picture."),
  "a drawing in SVG": bytes("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><path d='M0 0h9v9z'/></svg>"),
  "a PDF": bytes("%PDF-1.7\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF"),
  "a ZIP archive": bytes("PK\x05\x06", 18),
  "a TIFF": bytes("II*\0\x08\0\0\0\0\0", 40),
  "an AVIF": bytes("\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", 200),
  "a HEIC photograph": bytes("\0\0\0\x18ftypheic\0\0\0\0mif1heic", 200),
  "an icon": bytes("\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x20\0", 100),
  "only the signature of a PNG": bytes("\x89PNG\r\n\x1a\n"),
  "only the header of a GIF": bytes("GIF89a\x10\0\x10\0\0\0\0"),
  "only the start of a JPEG": bytes("\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),
  "a WebP without a picture": bytes("RIFF\x0c\0\0\0WEBPVP8 \0\0\0\0"),
  "a BMP without a picture": bytes("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x10\0\0\0\x10\0\0\0\x01\0\x18\0", 24),
};
