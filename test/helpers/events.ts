/** Reads server-sent events. */

export interface ServerEvent {
  readonly event: string;
  readonly id: string;
  readonly data: unknown;
}

/**
 * Yields the events of a response one by one. Comments are events without a name. Leaving the loop closes the
 * connection.
 */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  if (response.headers.get("content-type") !== "text/event-stream") throw new Error(await response.text());
  let text = "";
  for await (const bytes of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    text += bytes;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = new Map(
        text
          .slice(0, end)
          .split("\n")
          .map((line) => split(line)),
      );
      text = text.slice(end + 2);
      const data = fields.get("data");
      if (data !== undefined) {
        yield { event: fields.get("event") ?? "", id: fields.get("id") ?? "", data: JSON.parse(data) };
      } else if (fields.has("")) yield { event: "", id: "", data: undefined };
    }
  }
}

/** The data of the events with this name. */
export function dataOf(events: readonly ServerEvent[], name: string): unknown[] {
  return events.filter(({ event }) => event === name).map(({ data }) => data);
}

/** The next event of a stream with this name; by default the next event that is no comment. */
export async function nextEvent(events: AsyncGenerator<ServerEvent>, name?: string): Promise<ServerEvent> {
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error("the stream has ended");
    if (name === undefined ? value.event !== "" : value.event === name) return value;
  }
}

function split(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon), line.slice(colon + 2)];
}
