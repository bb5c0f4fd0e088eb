/** The page's client for the server's HTTP API. URLs are relative, so that a proxy may add a path prefix. */
import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";
import type { Json } from "../../../base/json.ts";
import { type JsonSchema, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { askForKey, hasKey, keyHeaders } from "./api-key.ts";
import { sentence } from "./value.ts";

/** The answer to GET /. */
interface ModelAnswer {
  readonly name: string;
  readonly tag: string;
  readonly digest: string;
  readonly description: string;
  readonly input_schema: JsonSchema;
  readonly output_schema: JsonSchema;
  /** Schema of the parts that the model yields before the whole output; undefined if it yields none. */
  readonly part_schema?: JsonSchema;
  readonly demo_output_schema: JsonSchema;
}

export type Model = Awaited<ReturnType<typeof readModel>>;

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

export async function readModel() {
  const answer: ModelAnswer = await (await request("./")).json();
  const { input_schema, output_schema, part_schema, demo_output_schema, ...model } = answer;
  return {
    ...model,
    input: SchemaNode.of(input_schema),
    output: SchemaNode.of(output_schema),
    part: part_schema && SchemaNode.of(part_schema),
    demoOutput: SchemaNode.of(demo_output_schema),
  };
}

export async function readExamples(): Promise<readonly Json[]> {
  return JSON.parse(await (await request("examples")).text());
}

export async function cancelRun(id: string): Promise<void> {
  await request(`demo/${id}/cancel`, { method: "POST" });
}

/** Sends a request. Asks the user for an API key if the server refuses the request without one, or with the present key. @throws Refusal */
async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = { Accept: "application/json", ...init.headers, ...keyHeaders() };
    const response = await fetch(path, { ...init, headers, cache: "no-store" }).catch(() => undefined);
    if (response === undefined) throw new Refusal("The server does not answer.");
    const { ok, status } = response;
    if (ok) return response;
    const { detail, errors }: { detail?: string; errors?: Fault[] } = (await response.json().catch(() => {})) ?? {};
    const refusal = new Refusal(sentence(detail ?? `the server answered ${status}`), errors);
    // A server without keys answers 403, too, to pages of other origins.
    const asksForKey = status === 401 || (status === 403 && hasKey());
    if (!asksForKey || !(await askForKey(hasKey() ? refusal.message : ""))) throw refusal;
  }
}

/**
 * Sends a request for an event stream, and yields its events until the stream ends or breaks. Uses `fetch`, since `EventSource` cannot send a header
 * with the API key. @throws Refusal
 */
export async function* eventsOf(path: string, init: RequestInit): AsyncGenerator<EventSourceMessage, void> {
  const { body } = await request(path, { ...init, headers: { ...init.headers, Accept: "text/event-stream" } });
  // Some browsers cannot iterate over streams.
  const reader = body?.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
  const next = () => reader?.read().catch(() => undefined);
  for (let read = await next(); read?.value !== undefined; read = await next()) yield read.value;
}
