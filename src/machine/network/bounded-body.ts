/** Bodies that should be short: read as far as a limit, since who sends them need not be honest. */

/** All of it, or undefined when it is longer than `maxBytes`. */
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

/** The JSON in it, or undefined when there is none, or it is longer than `maxBytes`. */
export async function boundedJson(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<unknown> {
  const bytes = await boundedBytes(chunks, maxBytes);
  try {
    return bytes === undefined ? undefined : JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** Those of a response; reading no further lets go of the connection. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  for await (const chunk of response.body ?? []) yield chunk;
}
