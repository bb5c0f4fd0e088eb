/** The events of a stream, as text. */

/** Splits a text at empty lines. Each chunk is searched once, because an event may have many chunks. */
export async function* blocksOf(chunks: AsyncIterable<string>): AsyncGenerator<string, void> {
  let pieces: string[] = [];
  for await (const chunk of chunks) {
    const end = pieces.at(-1)?.endsWith("\n") ? "\n" : "";
    const [first = "", ...others] = (end + chunk).split("\n\n");
    if (end !== "") pieces.push((pieces.pop() ?? "").slice(0, -1));
    pieces.push(first);
    for (const other of others) {
      yield pieces.join("");
      pieces = [other];
    }
  }
}
