/** Parses an event stream. */

export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Yields the events in the text of a stream. */
export async function* eventsIn(text: ReadableStream<string>): AsyncGenerator<StreamEvent, void> {
  // Some browsers cannot iterate over streams.
  const reader = text.getReader();
  const pieces: string[] = [];
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    pieces.push(read.value);
    // An event may come in many pieces: they are joined only where an event may end.
    if (!read.value.includes("\n")) continue;
    const blocks = pieces.splice(0).join("").split("\n\n");
    pieces.push(blocks.pop() ?? "");
    for (const block of blocks) {
      const [, name = "message"] = /^event: ?(.*)$/m.exec(block) ?? [];
      const data = [...block.matchAll(/^data: ?(.*)$/gm)].map(([, line]) => line);
      if (data.length > 0) yield { name, data: data.join("\n") };
    }
  }
}
