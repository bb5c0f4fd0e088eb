/** Reads an event stream by `fetch`, since `EventSource` cannot send a header with the API key. */

export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Yields the events of a stream until it ends. */
export async function* eventsIn(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<StreamEvent, void> {
  for await (const lines of blocksOf(chunksOf(body.pipeThrough(new TextDecoderStream())))) {
    const [, name = "message"] = /^event: ?(.*)$/m.exec(lines) ?? [];
    const data = [...lines.matchAll(/^data: ?(.*)$/gm)].map(([, line]) => line);
    if (data.length > 0) yield { name, data: data.join("\n") };
  }
}

/** Reads a stream by its reader, because some browsers cannot iterate over streams. */
async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string, void> {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}

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
