/** Files that are named on the command line: as text, or as the data URI that a model takes for them. */
import { readFile, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { SconceError } from "../../errors.ts";

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
 * What a file field is given for a text: a URL as it is, the content of a path as a data URI.
 * @throws SconceError `usage` when there is no such file
 */
export async function fileValue(text: string, name: string): Promise<string> {
  if (/^(https?|data):/i.test(text)) return text;
  const path = /^file:\/\//i.test(text) ? fileURLToPath(text) : text.replace(/^@/, "");
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\//i.test(path);
  // Which of them are taken is the model's to say.
  if (isUrl) return text;
  const bytes = await readBytes(path, name);
  return dataUriOf(bytes, path);
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
