/**
 * A client for predictions or for demo predictions: the two have the same API, with other paths and names of the id.
 */
import { type Client, type ProblemBody, problemOf } from "./client.ts";
import { until } from "./running.ts";

export const paths = ["/predictions", "/demo"] as const;
export type FamilyPath = (typeof paths)[number];

/** Answer about a prediction or a demo prediction. */
export interface Answer {
  readonly id: string;
  readonly status: "pending" | "running" | "success" | "failed";
  readonly outputs?: readonly Record<string, unknown>[];
  readonly demo_outputs?: readonly Record<string, unknown>[];
  readonly error_message?: string;
  readonly errors?: readonly { readonly index: number; readonly message: string }[];
  readonly logs?: string;
}

type Headers = Readonly<Record<string, string>>;

export class Family {
  readonly #client: Client;
  readonly path: FamilyPath;

  constructor(client: Client, path: FamilyPath) {
    this.#client = client;
    this.path = path;
  }

  /** Posts a body. Text and bytes are sent as they are, other values as JSON. */
  post(body: unknown, headers: Headers = {}): Promise<Response> {
    return this.#client.fetch(this.path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
    });
  }

  async refused(body: unknown, headers: Headers = {}): Promise<ProblemBody> {
    return problemOf(await this.post(body, headers));
  }

  create(inputs: readonly unknown[], headers: Headers = {}): Promise<Answer> {
    return this.post(inputs, headers).then(answerOf);
  }

  /** Creates a prediction, and waits for its end. */
  predict(inputs: readonly unknown[], headers: Headers = {}): Promise<Answer> {
    return this.create(inputs, { Prefer: "wait", ...headers });
  }

  read(id: string, headers: Headers = {}): Promise<Answer> {
    return this.#client.fetch(`${this.path}/${id}`, { headers }).then(answerOf);
  }

  end(id: string): Promise<Answer> {
    return this.read(id, { Prefer: "wait" });
  }

  cancel(id: string): Promise<Answer> {
    return this.#client.fetch(`${this.path}/${id}/cancel`, { method: "POST" }).then(answerOf);
  }

  /** Resolves once the prediction has this status. */
  async until(id: string, status: Answer["status"]): Promise<void> {
    await until(async () => (await this.read(id)).status === status);
  }
}

async function answerOf(response: Response): Promise<Answer> {
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const body = (await response.json()) as Answer & { readonly prediction_id?: string; readonly demo_id?: string };
  return { ...body, id: body.prediction_id ?? body.demo_id ?? "" };
}
