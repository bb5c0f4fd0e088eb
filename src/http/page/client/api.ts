/** The page's client for the server's HTTP API. URLs are relative, so that a proxy may add a path prefix. */
import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";
import type { Json } from "../../../base/json.ts";
import { type JsonSchema, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { askForKey, hasKey, keyHeaders } from "./api-key.ts";
import { sentence } from "./value.ts";

export interface Model {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly description: string;
  readonly input: SchemaNode;
  readonly output: SchemaNode;
  /** Schema of the parts that the model yields before the whole output; undefined if it yields none. */
  readonly part: SchemaNode | undefined;
  readonly demoOutput: SchemaNode;
}

interface ModelAnswer extends Pick<Model, "name" | "tag" | "digest" | "description"> {
  readonly input_schema: JsonSchema;
  readonly output_schema: JsonSchema;
  readonly part_schema?: JsonSchema;
  readonly demo_output_schema: JsonSchema;
}

/** A fault of a request body. `pointer` is a JSON pointer to the faulty value. */
export interface Fault {
  readonly pointer: string;
  readonly detail: string;
}

/** An error for a request without the expected answer. */
export class Refusal extends Error {
  readonly faults: readonly Fault[];

  constructor(detail: string, faults: readonly Fault[] = []) {
    super(detail);
    this.faults = faults;
  }
}

export interface Persistence {
  readonly signal: AbortSignal;
  /** Called after each attempt: with a message while the server is unavailable, else with undefined. */
  readonly onUnavailable: (message: string | undefined) => void;
}

const quietly: Persistence = { signal: new AbortController().signal, onUnavailable: () => {} };

export async function readModel(persistence: Persistence): Promise<Model> {
  const answer: ModelAnswer = await (await request("./", {}, persistence)).json();
  const { input_schema, output_schema, part_schema, demo_output_schema, ...model } = answer;
  return {
    ...model,
    input: SchemaNode.of(input_schema),
    output: SchemaNode.of(output_schema),
    part: part_schema && SchemaNode.of(part_schema),
    demoOutput: SchemaNode.of(demo_output_schema),
  };
}

export async function readExamples(persistence: Persistence): Promise<readonly Json[]> {
  return JSON.parse(await (await request("examples", {}, persistence)).text());
}

export async function cancelRun(id: string): Promise<void> {
  await request(`demo/${id}/cancel`, { method: "POST" }, quietly);
}

/** Sends a request, and repeats it until the server is available. Asks the user for an API key if the server refuses the request without one, or with the present key. @throws Refusal */
async function request(path: string, init: RequestInit, { signal, onUnavailable }: Persistence): Promise<Response> {
  for (let delayMs = 500; ; delayMs = Math.min(1.5 * delayMs, 3000)) {
    const headers = { Accept: "application/json", ...init.headers, ...keyHeaders() };
    const response = await fetch(path, { ...init, headers, cache: "no-store", signal }).catch(() => undefined);
    signal.throwIfAborted();
    const status = response?.status ?? 0;
    if (response?.ok) {
      onUnavailable(undefined);
      return response;
    }
    const { detail, errors }: { detail?: string; errors?: Fault[] } = (await response?.json().catch(() => {})) ?? {};
    const message = response === undefined ? "the server does not answer" : `the server answered ${status}`;
    const refusal = new Refusal(sentence(detail ?? message), errors);
    // A server without keys answers 403, too, to pages of other origins.
    const asksForKey = status === 401 || (status === 403 && hasKey());
    if (asksForKey && (await askForKey(hasKey() ? refusal.message : ""))) continue;
    // Proxies send these statuses, too, if they cannot reach the server.
    if (![0, 502, 503, 504].includes(status)) throw refusal;
    onUnavailable(refusal.message);
    await pause(delayMs, signal);
  }
}

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  signal.throwIfAborted();
}

/**
 * Sends a request for an event stream, and yields its events until the stream ends or breaks. Uses `fetch`, since `EventSource` cannot send a header
 * with the API key. @throws Refusal
 */
export async function* eventsOf(
  path: string,
  init: RequestInit,
  persistence: Persistence,
): AsyncGenerator<EventSourceMessage, void> {
  const headers = { ...init.headers, Accept: "text/event-stream" };
  const { body } = await request(path, { ...init, headers }, persistence);
  // Some browsers cannot iterate over streams.
  const reader = body?.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
  try {
    for (let next = await reader?.read(); next?.value !== undefined; next = await reader?.read()) yield next.value;
  } catch {
    persistence.signal.throwIfAborted();
  }
}
