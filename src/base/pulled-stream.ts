/** A stream of the pieces of a generator. */

/**
 * Each read asks for one piece.
 * @param onLeave called when the reader cancels the stream before the last piece, also before the first one
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
