/** The event stream of a run (a demo prediction). Replaces `EventSource`, which cannot send a header with the API key. */
import { keyHeaders } from "./api-key.ts";
import { blocksOf } from "./event-blocks.ts";

export class RunEvents {
  readonly #listeners = new Map<string, (event: { readonly data: string }) => void>();
  readonly #abort = new AbortController();
  /** A state of `EventSource`: CONNECTING, OPEN or CLOSED. */
  #readyState: number = EventSource.CONNECTING;

  constructor(path: string) {
    void this.#read(path)
      .catch(() => {})
      .finally(() => {
        this.#readyState = EventSource.CLOSED;
      });
  }

  get readyState(): number {
    return this.#readyState;
  }

  addEventListener(name: string, listener: (event: { readonly data: string }) => void): void {
    this.#listeners.set(name, listener);
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(path: string): Promise<void> {
    const headers = { Accept: "text/event-stream", ...keyHeaders() };
    const { ok, body } = await fetch(path, { headers, cache: "no-store", signal: this.#abort.signal });
    if (!ok || body === null) return;
    this.#readyState = EventSource.OPEN;
    for await (const event of blocksOf(chunksOf(body.pipeThrough(new TextDecoderStream())))) this.#dispatch(event);
  }

  /** Parses an event and calls its listener. @param event lines such as `event: output` and `data: {…}` */
  #dispatch(event: string): void {
    const fields = new Map<string, string>();
    for (const line of event.split("\n")) {
      const [, name = "", value = ""] = /^([^:]+): ?(.*)$/.exec(line) ?? [];
      const before = fields.get(name);
      fields.set(name, before === undefined ? value : `${before}\n${value}`);
    }
    const data = fields.get("data");
    if (data !== undefined) this.#listeners.get(fields.get("event") ?? "message")?.({ data });
  }
}

/** Reads a stream by its reader, because some browsers cannot iterate over streams. */
async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string, void> {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
