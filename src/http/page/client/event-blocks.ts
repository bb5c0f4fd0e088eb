/** Splits the text of an event stream into events. */

/** Yields the text between empty lines. Searches each chunk once, since an event may consist of many chunks. */
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
