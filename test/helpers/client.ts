/** A client of the HTTP API that can send any body and any headers. */
import { until } from "./running.ts";

/** A prediction, or a demo prediction, whose `prediction_id` here is its `demo_id`. */
export interface PredictionBody {
  readonly prediction_id: string;
  readonly status: "pending" | "running" | "success" | "failed";
  readonly outputs?: readonly Record<string, unknown>[];
  readonly demo_outputs?: readonly Record<string, unknown>[];
  readonly logs?: string;
  readonly error_message?: string;
  readonly errors?: readonly { readonly index: number; readonly message: string }[];
  readonly partial_outputs?: readonly (Record<string, unknown> | null)[];
  readonly model?: { readonly repository: string; readonly tag: string; readonly digest: string };
  readonly created_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
}

export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

type Headers = Readonly<Record<string, string>>;

export class Client {
  readonly url: URL;
  /** Path of the predictions: `/predictions`, or `/demo` for demo predictions. */
  readonly path: string;

  constructor(url: URL, path = "/predictions") {
    this.url = url;
    this.path = path;
  }

  /** A client of the same server that posts to another path. */
  at(path: string): Client {
    return new Client(this.url, path);
  }

  /** A client for the demo predictions of the same server. */
  get demos(): Client {
    return this.at("/demo");
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(new URL(path, this.url), init);
  }

  /** Status of a GET. */
  async status(path: string): Promise<number> {
    return (await this.fetch(path)).status;
  }

  /** JSON of a GET. */
  async json(path: string): Promise<unknown> {
    return (await this.fetch(path)).json();
  }

  /** Text of a GET. */
  async text(path: string): Promise<string> {
    return (await this.fetch(path)).text();
  }

  /** Resolves once the server, or the model of this path, is ready. A port that nobody listens on is tried again. */
  async ready(path = "/health/ready"): Promise<void> {
    // Not on a kept connection, which may lead to a process that has ended.
    const get = () => this.fetch(path, { keepalive: false }).catch(() => undefined);
    await until(async () => (await get())?.status === 200);
  }

  /** Posts a body. Text, bytes and streams are sent as they are, other values as JSON. */
  post(body: unknown, headers: Headers = {}, signal?: AbortSignal): Promise<Response> {
    const isRaw =
      typeof body === "string" || body instanceof Uint8Array || body instanceof Blob || body instanceof ReadableStream;
    return this.fetch(this.path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: isRaw ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Creates a prediction, and does not wait for its end. */
  create(inputs: readonly unknown[], headers: Headers = {}): Promise<PredictionBody> {
    return this.post(inputs, headers).then(bodyOf);
  }

  /** Creates a prediction, and waits for its end. */
  predict(inputs: readonly unknown[], headers: Headers = {}): Promise<PredictionBody> {
    return this.create(inputs, { Prefer: "wait", ...headers });
  }

  /** Creates a prediction below a path, such as `/models/NAME`, and waits for its end. */
  async predictAt(path: string, inputs: readonly unknown[], headers: Headers = {}): Promise<PredictionBody> {
    const answer = await this.at(`${path}/predictions`).post(inputs, { Prefer: "wait", ...headers });
    return (await answer.json()) as PredictionBody;
  }

  /** Creates a prediction with the given id by PUT, and waits for its end. */
  put(id: string, inputs: readonly unknown[], headers: Headers = {}): Promise<PredictionBody> {
    return this.fetch(`${this.path}/${id}`, {
      method: "PUT",
      headers: { "Content-Type": "application/json", Prefer: "wait", ...headers },
      body: JSON.stringify(inputs),
    }).then(bodyOf);
  }

  read(id: string, headers: Headers = {}): Promise<PredictionBody> {
    return this.fetch(`${this.path}/${id}`, { headers }).then(bodyOf);
  }

  /** Creates a prediction, and requests its event stream. */
  stream(inputs: readonly unknown[], headers: Headers = {}): Promise<Response> {
    return this.post(inputs, { Accept: "text/event-stream", ...headers });
  }

  /** Requests the event stream of a prediction. */
  watch(id: string, headers: Headers = {}): Promise<Response> {
    return this.fetch(`${this.path}/${id}`, { headers: { Accept: "text/event-stream", ...headers } });
  }

  /** Resolves with the prediction once it has ended. */
  end(id: string): Promise<PredictionBody> {
    return this.read(id, { Prefer: "wait" });
  }

  cancel(id: string): Promise<PredictionBody> {
    return this.fetch(`${this.path}/${id}/cancel`, { method: "POST" }).then(bodyOf);
  }

  /** Posts a body that the server must refuse. @returns the problem */
  async refused(body: unknown, headers: Headers = {}): Promise<ProblemBody> {
    return problemOf(await this.post(body, headers));
  }

  /** The sum of the series of GET /metrics that have a name and some labels; 0 if the server has no such series. */
  async metric(series: string): Promise<number> {
    const text = await this.text("/metrics");
    return seriesIn(text, series).reduce((sum, value) => sum + value, 0);
  }

  /** Resolves with the prediction once `condition` holds. Polls without sleeping, since each request takes time. */
  async until(id: string, condition: (body: PredictionBody) => boolean): Promise<PredictionBody> {
    for (;;) {
      const body = await this.read(id);
      if (condition(body)) return body;
    }
  }
}

/** Values of the series in a text of metrics that have a name and some labels, such as `name{label="value"}`. */
export function seriesIn(text: string, series: string): number[] {
  const [, name = "", given = ""] = /^(\w+)(.*)$/.exec(series) ?? [];
  const wanted = given.match(/\w+="[^"]*"/g) ?? [];
  return text.split("\n").flatMap((line) => {
    const [, found, labels = "", value] = /^(\w+)(\{.*\})? (\S+)$/.exec(line) ?? [];
    return found === name && wanted.every((label) => labels.includes(label)) ? [Number(value)] : [];
  });
}

/**
 * Reads the problem of a refused request. Throws if the media type is not a problem's, or the body's status is not
 * the response's.
 */
export async function problemOf(response: Response): Promise<ProblemBody> {
  const body = (await response.json()) as ProblemBody;
  const mediaType = response.headers.get("content-type");
  if (mediaType !== "application/problem+json") throw new Error(`expected a problem, received ${mediaType}`);
  if (body.status !== response.status) throw new Error(`a problem of ${body.status} came with ${response.status}`);
  return body;
}

async function bodyOf(response: Response): Promise<PredictionBody> {
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const body = (await response.json()) as PredictionBody & { readonly demo_id?: string };
  return { ...body, prediction_id: body.demo_id ?? body.prediction_id };
}
