/** Reads short bodies up to a limit, because a sender may send more. */

/** Reads the whole body; undefined if it is longer than `maxBytes`. */
export async function boundedBytes(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of chunks) {
    size += part.length;
    if (size > maxBytes) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts, size);
}

/** Reads and parses JSON; undefined if the body is invalid or longer than `maxBytes`. */
export async function boundedJson(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<unknown> {
  const bytes = await boundedBytes(chunks, maxBytes);
  try {
    return bytes === undefined ? undefined : JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** Yields the body of a response in chunks. If the reader stops early, the connection closes. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  for await (const chunk of response.body ?? []) yield chunk;
}
