/** Sends large JSON texts and files in pieces, one piece per turn of the event loop, so that other requests run between pieces. */

import type { LargeText } from "../base/large-text.ts";
import { pulledStream } from "../base/pulled-stream.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";

let lastTurn: Promise<unknown> = Promise.resolve();

/** Resolves in a turn of the event loop in which no other large answer sends a piece. */
export function turnToSend(): Promise<unknown> {
  lastTurn = lastTurn.then(() => new Promise((resolve) => setImmediate(resolve)));
  return lastTurn;
}

/**
 * Streams the bytes of a text. The first read creates the text, because many clients disconnect before. Counts the memory of the text while it is being
 * sent: its bytes are kept for other readers of the same prediction.
 */
export function streamOf(open: () => LargeText, memory: MemoryAccount): ReadableStream<Uint8Array> {
  return pulledStream(piecesOf(open, memory));
}

async function* piecesOf(open: () => LargeText, memory: MemoryAccount): AsyncGenerator<Uint8Array, undefined> {
  await turnToSend();
  const text = open();
  using _charge = memory.add("answers", text.length);
  for (let piece = 0; ; piece++) {
    const bytes = text.bytes(piece);
    if (bytes === undefined) return undefined;
    if (bytes.length === 0) continue;
    yield bytes;
    await turnToSend();
  }
}
