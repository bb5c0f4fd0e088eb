/** A server in front of a registry that does to its requests and answers what networks and liars do. */
import {
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";

export interface SeenRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/** Fault of one request; undefined passes the request on. */
export type Trick =
  /** Answered here. */
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  /** The connection ends after so many bytes of the answer's body, once the client has taken them. */
  | { readonly cutAnswerAfter: number; taken(): Promise<void> }
  /** The connection ends when so many bytes of the request's body have reached the registry. */
  | { readonly cutRequestAfter: number }
  /** The connection ends before the registry has heard of it. */
  | { readonly dropRequest: true }
  /** The registry does it, but its answer is lost. */
  | { readonly dropAnswer: true }
  /** The answer's body is another one of the same length. */
  | { readonly change: (body: Buffer) => Buffer }
  /** Passed on without this header. */
  | { readonly withoutHeader: string }
  /** The answer stops for good after so many bytes, until `release`. */
  | { readonly holdAnswerAfter: number; held(): void };

export interface RegistryProxy extends AsyncDisposable {
  readonly host: string;
  readonly requests: readonly SeenRequest[];
  /** Requests with a matching path, as lines `METHOD range`. */
  of(method: string, path: RegExp): readonly SeenRequest[];
}

/** @param trick called for every request, in their order */
export async function registryProxy(
  upstreamPort: number,
  trick: (request: SeenRequest) => Trick | undefined = () => undefined,
): Promise<RegistryProxy> {
  const requests: SeenRequest[] = [];
  const server = createServer((incoming, outgoing) => {
    const seen = { method: incoming.method ?? "", path: incoming.url ?? "", headers: incoming.headers };
    requests.push(seen);
    serve(upstreamPort, incoming, outgoing, trick(seen));
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  return {
    host: `127.0.0.1:${address.port}`,
    requests,
    of: (method, path) => requests.filter((each) => each.method === method && path.test(each.path)),
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      server.closeAllConnections();
      await promise;
    },
  };
}

function serve(port: number, incoming: IncomingMessage, outgoing: ServerResponse, trick: Trick | undefined): void {
  if (trick && "status" in trick) {
    incoming.resume();
    outgoing.writeHead(trick.status, trick.headers);
    outgoing.end(trick.body ?? "");
    return;
  }
  if (trick && "dropRequest" in trick) {
    incoming.socket.destroy();
    return;
  }
  const headers = { ...incoming.headers };
  if (trick && "withoutHeader" in trick) delete headers[trick.withoutHeader];
  const upstream = request(
    { host: "127.0.0.1", port, method: incoming.method, path: incoming.url, headers },
    (answer) => {
      if (trick && ("dropAnswer" in trick || "cutRequestAfter" in trick)) incoming.socket.destroy();
      else if (trick && "change" in trick) void changed(answer, outgoing, trick.change);
      else if (trick && "cutAnswerAfter" in trick) {
        void begin(answer, outgoing, trick.cutAnswerAfter)
          .then(trick.taken)
          .then(() => incoming.socket.destroy());
      } else if (trick && "holdAnswerAfter" in trick) {
        void begin(answer, outgoing, trick.holdAnswerAfter).then(() => trick.held());
      } else {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      }
    },
  );
  upstream.on("error", () => incoming.socket.destroy());
  if (trick && "cutRequestAfter" in trick) void cutRequest(incoming, upstream, trick.cutRequestAfter);
  else incoming.pipe(upstream);
}

async function cutRequest(incoming: IncomingMessage, upstream: ClientRequest, bytes: number): Promise<void> {
  let left = bytes;
  for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
    const part: Buffer = chunk.subarray(0, left);
    left -= part.length;
    await new Promise<void>((resolve) => upstream.write(part, () => resolve()));
    if (left === 0) break;
  }
  // The registry has read all of it when it answers.
  upstream.socket?.end();
}

async function changed(answer: IncomingMessage, outgoing: ServerResponse, change: (body: Buffer) => Buffer) {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  outgoing.end(change(Buffer.concat(chunks)));
}

/** Sends the head and the given number of body bytes, and waits until the socket has sent them. */
async function begin(answer: IncomingMessage, outgoing: ServerResponse, bytes: number): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  const { promise, resolve } = Promise.withResolvers<void>();
  outgoing.write(Buffer.concat(chunks).subarray(0, bytes), () => resolve());
  await promise;
}
