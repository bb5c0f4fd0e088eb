/** Reads files that the command line names, as text, data URI or array. */
import { readFile, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { listsOfNpy } from "../../../base/npy.ts";

const standardInput = "-";
let piped: Promise<Uint8Array> | undefined;

/**
 * Reads a file, or standard input for `-`, as text.
 * @param name name of the option or field, for messages
 * @throws SconceError `usage` when the file does not exist
 */
export async function readText(path: string, name: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(path, name));
}

/**
 * Returns the value of a file field: the converted content of a path or `file:` URL. Other URLs stay unchanged.
 * @param name name of the field, for messages
 * @throws SconceError `usage` when the file does not exist, or `convert` fails
 */
export async function fileValue<T>(
  text: string,
  name: string,
  convert: (bytes: Uint8Array, path: string) => T,
): Promise<T | string> {
  if (/^(https?|data):/i.test(text)) return text;
  const path = /^file:\/\//i.test(text) ? fileURLToPath(text) : text.replace(/^@/, "");
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\//i.test(path);
  // Keeps a URL with any scheme, because the model decides which schemes it accepts.
  if (isUrl) return text;
  const bytes = await readBytes(path, name);
  try {
    return convert(bytes, path);
  } catch (error) {
    throw notReadable(path, name, messageOf(error), error);
  }
}

/** Encodes a file's bytes as a data URI. @param path its extension determines the media type */
export function dataUriOf(bytes: Uint8Array, path: string): string {
  const named = path === standardInput ? "" : (Bun.file(path).type.split(";", 1)[0] ?? "");
  // Removes the prefix `x-`, because fields accept registered media types such as audio/wav and audio/flac.
  const mediaType = named.replace(/^audio\/x-/, "audio/") || "application/octet-stream";
  return `data:${mediaType};base64,${bytes.toBase64()}`;
}

/**
 * The value of an array field: lists for a .json or NumPy file, otherwise a data URI of the file's bytes.
 * @throws an error for broken JSON, or an unreadable NumPy file
 */
export function arrayOf(bytes: Uint8Array, path: string): unknown {
  if (/\.json$/i.test(path)) return JSON.parse(new TextDecoder().decode(bytes));
  return listsOfNpy(bytes) ?? dataUriOf(bytes, path);
}

async function readBytes(path: string, name: string): Promise<Uint8Array> {
  // Standard input can be read only once, so all fields share its bytes.
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
