/** The event stream of a run (a demo prediction). Replaces `EventSource`, which cannot send a header with the API key. */
import { keyHeaders } from "./api-key.ts";
import { blocksOf } from "./event-blocks.ts";

export interface RunEvent {
  readonly name: string;
  readonly data: string;
}

/** Yields the events of a stream until it ends. Yields none if the server refuses the request. @throws if the connection fails */
export async function* runEvents(path: string, signal: AbortSignal): AsyncGenerator<RunEvent, void> {
  const headers = { Accept: "text/event-stream", ...keyHeaders() };
  const { ok, body } = await fetch(path, { headers, cache: "no-store", signal });
  if (!ok || body === null) return;
  for await (const lines of blocksOf(chunksOf(body.pipeThrough(new TextDecoderStream())))) {
    const fields = new Map<string, string>();
    for (const line of lines.split("\n")) {
      const [, name = "", value = ""] = /^([^:]+): ?(.*)$/.exec(line) ?? [];
      const before = fields.get(name);
      fields.set(name, before === undefined ? value : `${before}\n${value}`);
    }
    const data = fields.get("data");
    if (data !== undefined) yield { name: fields.get("event") ?? "message", data };
  }
}

/** Reads a stream by its reader, because some browsers cannot iterate over streams. */
async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string, void> {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
