/** Sends large JSON texts and files in pieces, one piece per turn of the event loop, so that other requests run between pieces. */

import type { LargeText } from "../base/large-text.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";

let lastTurn: Promise<unknown> = Promise.resolve();

/** Resolves in a turn of the event loop in which no other large answer sends a piece. */
export function turnToSend(): Promise<unknown> {
  lastTurn = lastTurn.then(() => new Promise((resolve) => setImmediate(resolve)));
  return lastTurn;
}

/**
 * A stream of the pieces of a generator. Each read of the client asks for one piece.
 * @param onLeave called when the client disconnects before the last piece, also before the first one
 */
export function pulledStream(
  pieces: AsyncGenerator<string | Uint8Array, undefined>,
  onLeave: () => void = () => {},
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      async pull(controller) {
        const { value, done } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(typeof value === "string" ? encoder.encode(value) : value);
      },
      async cancel() {
        onLeave();
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
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
