/** Files that are named on the command line: as text, or as the data URI that a model takes for them. */
import { readFile, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { messageOf, SconceError } from "../../errors.ts";

const standardInput = "-";
let piped: Promise<Uint8Array> | undefined;

/**
 * The content of a file, or of standard input for `-`.
 * @param name of what it is for, in messages
 * @throws SconceError `usage` when it is not there
 */
export async function readText(path: string, name: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(path, name));
}

/**
 * What a field is given for a text that names a file: a URL as it is, else what `convert` makes of the file's content.
 * @throws SconceError `usage` when there is no such file, or `convert` cannot take it
 */
export async function fileValue<T>(
  text: string,
  name: string,
  convert: (bytes: Uint8Array, path: string) => T,
): Promise<T | string> {
  if (/^(https?|data):/i.test(text)) return text;
  const path = /^file:\/\//i.test(text) ? fileURLToPath(text) : text.replace(/^@/, "");
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\//i.test(path);
  // Which of them are taken is the model's to say.
  if (isUrl) return text;
  const bytes = await readBytes(path, name);
  try {
    return convert(bytes, path);
  } catch (error) {
    throw notReadable(path, name, messageOf(error), error);
  }
}

/** @param path of which the ending says what the file is */
export function dataUriOf(bytes: Uint8Array, path: string): string {
  const named = path === standardInput ? "" : (Bun.file(path).type.split(";", 1)[0] ?? "");
  // Registered are the names without x- (audio/wav, audio/flac), and those are what fields ask for.
  const mediaType = named.replace(/^audio\/x-/, "audio/") || "application/octet-stream";
  return `data:${mediaType};base64,${bytes.toBase64()}`;
}

async function readBytes(path: string, name: string): Promise<Uint8Array> {
  // Read once, whoever asks for it.
  if (path === standardInput) {
    piped ??= Bun.stdin.bytes();
    return piped;
  }
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw notReadable(path, name, "there is no such file");
  if (found.isDirectory()) throw notReadable(path, name, "it is a folder");
  return readFile(path).catch((error: unknown) => {
    throw notReadable(path, name, "it can't be read", error);
  });
}

function notReadable(path: string, name: string, why: string, cause?: unknown): SconceError {
  return new SconceError("usage", `${name} can't be read from ${JSON.stringify(path)}: ${why}`, { cause });
}
