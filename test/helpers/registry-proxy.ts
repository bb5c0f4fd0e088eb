/** A proxy before a registry. It injects network faults and wrong answers. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http";

export interface SeenRequest {
  readonly method: string;
  /** Path of the request, with its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/** The fault of one request; undefined forwards the request without a fault. */
export type Trick =
  /** The proxy answers, and the registry gets no request. */
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  /** Sends this number of bytes of the answer's body, and closes the connection once `taken` has resolved. */
  | { readonly cutAnswerAfter: number; taken(): Promise<void> }
  /** The registry handles the request, but the client gets no answer. */
  | { readonly dropAnswer: true }
  /** Replaces the body of the answer by another of the same length. */
  | { readonly change: (body: Buffer) => Buffer }
  /** Forwards the request without this header. */
  | { readonly withoutHeader: string }
  /** Sends this number of bytes of the answer's body, then calls `held`, and leaves the connection open. */
  | { readonly holdAnswerAfter: number; held(): void };

export interface RegistryProxy extends AsyncDisposable {
  readonly host: string;
  readonly requests: readonly SeenRequest[];
  /** The requests so far with this method and a matching path, in order. */
  of(method: string, path: RegExp): readonly SeenRequest[];
}

/** Starts the proxy. @param trick chooses the fault of each request */
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
  const headers = { ...incoming.headers };
  if (trick && "withoutHeader" in trick) delete headers[trick.withoutHeader];
  const upstream = request(
    { host: "127.0.0.1", port, method: incoming.method, path: incoming.url, headers },
    (answer) => {
      if (trick && "dropAnswer" in trick) incoming.socket.destroy();
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
  incoming.pipe(upstream);
}

async function changed(answer: IncomingMessage, outgoing: ServerResponse, change: (body: Buffer) => Buffer) {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  outgoing.end(change(Buffer.concat(chunks)));
}

/** Sends the head and the first `bytes` bytes of the body. Resolves once the socket has sent them. */
async function begin(answer: IncomingMessage, outgoing: ServerResponse, bytes: number): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  const { promise, resolve } = Promise.withResolvers<void>();
  outgoing.write(Buffer.concat(chunks).subarray(0, bytes), () => resolve());
  await promise;
}
