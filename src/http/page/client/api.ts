/** The page's client for the server's HTTP API. URLs are relative, so that a proxy may add a path prefix. */
import { type JsonSchema, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { askForKey, keyHeaders } from "./api-key.tsx";
import { eventsIn, type StreamEvent } from "./events.ts";
import { type Json, sentence, type Value } from "./value.ts";

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

/** A failed input. `pointer` is a JSON pointer to the faulty field, if it is known. */
export interface ItemFault {
  readonly index: number;
  readonly message: string;
  readonly pointer?: string;
}

/** A run of the model on the page, which is a demo prediction in the server's JSON. */
export interface Run {
  readonly demo_id: string;
  readonly status: "pending" | "running" | "success" | "failed";
  readonly outputs?: readonly Json[];
  readonly demo_outputs?: readonly Json[];
  /** Outputs so far, also after a failure; null for inputs without an output. */
  readonly partial_outputs?: readonly Json[];
  /** For each input, its parts so far, joined to one value. They come from the event stream, not from the server's JSON. */
  readonly grown?: readonly (Json | undefined)[];
  readonly error_message?: string;
  readonly errors?: readonly ItemFault[];
  readonly logs: string;
  readonly created_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
}

/** A fault of a request body. `pointer` is a JSON pointer to the faulty value. */
export interface Fault {
  readonly pointer: string;
  readonly detail: string;
}

/** An error for a request without the expected answer. */
export class Refusal extends Error {
  /** 0 if the server does not answer. */
  readonly status: number;
  readonly faults: readonly Fault[];

  constructor(status: number, detail: string, faults: readonly Fault[] = []) {
    super(detail);
    this.status = status;
    this.faults = faults;
  }

  /** Whether the same request may succeed later. Proxies send some of these statuses, too, if they cannot reach the server. */
  get isTemporary(): boolean {
    return [0, 502, 503, 504].includes(this.status);
  }
}

export function hasEnded({ status }: Run): boolean {
  return status === "success" || status === "failed";
}

export async function readModel(): Promise<Model> {
  const { input_schema, output_schema, part_schema, demo_output_schema, ...model } = await request<ModelAnswer>("./");
  return {
    ...model,
    input: SchemaNode.of(input_schema),
    output: SchemaNode.of(output_schema),
    part: part_schema && SchemaNode.of(part_schema),
    demoOutput: SchemaNode.of(demo_output_schema),
  };
}

export function readExamples(): Promise<readonly Json[]> {
  return request("examples");
}

/** @param options.key the value of `Idempotency-Key`: a repeated request with the same key starts no second run */
export function createRun(
  inputs: readonly Value[],
  { key, signal }: { readonly key: string; readonly signal: AbortSignal },
): Promise<Run> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  return request("demo", { method: "POST", headers, body: JSON.stringify(inputs), signal });
}

/** Makes a random key. `crypto.randomUUID` is missing on pages that came over plain HTTP from another machine. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36).padStart(7, "0")).join("-");
}

export function readRun(id: string, signal: AbortSignal): Promise<Run> {
  return request(pathOf(id), { signal });
}

/** Yields the events of a run until the stream ends. Yields none if the server refuses the request. @throws if the connection fails */
export async function* eventsOf(id: string, signal: AbortSignal): AsyncGenerator<StreamEvent, void> {
  const headers = { Accept: "text/event-stream", ...keyHeaders() };
  const { ok, body } = await fetch(`${pathOf(id)}/events`, { headers, cache: "no-store", signal });
  if (ok && body !== null) yield* eventsIn(body);
}

export function cancelRun(id: string): Promise<Run> {
  return request(`${pathOf(id)}/cancel`, { method: "POST" });
}

function pathOf(id: string): string {
  return `demo/${encodeURIComponent(id)}`;
}

async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
  const headers = { Accept: "application/json", ...init.headers, ...keyHeaders() };
  const response = await fetch(path, { ...init, headers, cache: "no-store" }).catch((error: unknown) => {
    if (init.signal?.aborted) throw error;
    throw new Refusal(0, "The server does not answer");
  });
  if (response.ok) return response.json();
  if (response.status === 401) {
    await askForKey();
    return request(path, init);
  }
  const { detail = "", errors }: { detail?: string; errors?: Fault[] } = await response.json().catch(() => ({}));
  throw new Refusal(response.status, sentence(detail || `the server answered ${response.status}`), errors);
}

export interface Persistence {
  readonly signal: AbortSignal;
  /** Called after each attempt, with undefined if the server was available. */
  readonly onUnavailable: (refusal: Refusal | undefined) => void;
}

/** Repeats an action until the server is available. @throws other errors of the action */
export async function persistently<T>(action: () => Promise<T>, { signal, onUnavailable }: Persistence): Promise<T> {
  for (let delayMs = 500; ; delayMs = Math.min(delayMs * 1.5, 3000)) {
    try {
      const result = await action();
      onUnavailable(undefined);
      return result;
    } catch (error) {
      if (!(error instanceof Refusal && error.isTemporary)) throw error;
      onUnavailable(error);
      await pause(delayMs, signal);
    }
  }
}

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  signal.throwIfAborted();
}
