/** A simulated registry in this process. A table of behaviours makes it answer as a product does, or fail. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";

/** A fault of a request that sends a large blob. */
export type UploadFault =
  /** Closes the connection after this number of bytes of the body. */
  | { readonly cutAfter: number }
  /** Reads this number of bytes of the body, then stops reading. */
  | { readonly stallAfter: number }
  /** Discards the request's body, and answers 416 with a reason. */
  | "refuse"
  /** Discards the upload. */
  | "forget";

export interface RegistryBehaviour {
  /** The tokens that the registry requires. Default: none. */
  readonly tokens?: Tokens;
  /** Answer to all requests, for a repository that does not exist. Default: every repository exists. */
  readonly missing?: { readonly status: number; readonly code: string };
  /** The fault of each request that sends a large blob, in order; undefined for none. */
  readonly faults?: readonly (UploadFault | undefined)[];
  /** Content of the registry from the start. The manifest answers for every tag and digest. */
  readonly content?: Content;
  /** The answer to every request, in place of all other behaviours. */
  readonly always?: Answer;
  /** Key and certificate of a registry that speaks TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Tokens of the registry's own token server. */
export interface Tokens {
  /** Number of requests for which a token is valid. Default: any number. */
  readonly uses?: number;
  /** Whether the token server refuses every request. */
  readonly refused?: boolean;
  /** Number of the first tokens that the registry does not know. */
  readonly unknown?: number;
  /** Scope in the registry's challenge. */
  readonly scope?: string;
}

/** A request for a token. */
interface TokenRequest {
  readonly authorization: string | undefined;
  readonly query: Readonly<Record<string, string>>;
}

export interface Content {
  readonly manifest: string;
  /** Texts by digest. */
  readonly blobs?: ReadonlyMap<string, string>;
}

export interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface FakeRegistry extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Method and path of each request with a token. */
  readonly requests: readonly string[];
  /** Requests for tokens. */
  readonly tokens: readonly TokenRequest[];
  /** Number of requests that sent a large blob. */
  readonly largeUploads: number;
  /** Received blobs by digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
  /** Received manifests by tag. */
  readonly manifests: ReadonlyMap<string, Buffer>;
}

/** Fewest bytes of a large blob. */
const LARGE_BYTES = 5000;

export async function fakeRegistry(behaviour: RegistryBehaviour = {}): Promise<FakeRegistry> {
  const { tokens, missing, faults = [], content, always, tls } = behaviour;
  const left = [...faults];
  const usesOf = new Map<string, number>();
  const requests: string[] = [];
  const asked: TokenRequest[] = [];
  const uploads = new Set<string>();
  const blobs = new Map<string, Buffer>(
    [...(content?.blobs ?? [])].map(([digest, text]) => [digest, Buffer.from(text)]),
  );
  const manifests = new Map<string, Buffer>();
  let largeUploads = 0;

  async function upload(request: IncomingMessage, response: ServerResponse, { searchParams }: URL): Promise<void> {
    const isLarge = Number(request.headers["content-length"] ?? 0) > LARGE_BYTES;
    if (isLarge) largeUploads += 1;
    const fault = isLarge ? left.shift() : undefined;
    if (fault === "refuse") {
      request.resume();
      return refuse(response, 416, "BLOB_UPLOAD_INVALID", "upload is too large");
    }
    if (typeof fault === "object") {
      await bodyOf(request, "cutAfter" in fault ? fault.cutAfter : fault.stallAfter);
      if ("cutAfter" in fault) request.socket.destroy();
      return;
    }
    const whole = await bodyOf(request);
    if (fault === "forget" || !uploads.delete(searchParams.get("id") ?? "")) return void response.writeHead(404).end();
    const digest = `sha256:${new Bun.CryptoHasher("sha256").update(whole).digest("hex")}`;
    if (digest !== searchParams.get("digest")) {
      return refuse(response, 400, "DIGEST_INVALID", "provided digest did not match");
    }
    blobs.set(digest, whole);
    response.writeHead(201).end();
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", headers } = request;
    const url = new URL(request.url ?? "", `http://${headers.host}`);
    if (url.pathname === "/token") {
      const query = url.searchParams.keys().map((name) => [name, url.searchParams.getAll(name).join(" ")] as const);
      asked.push({ authorization: headers.authorization, query: Object.fromEntries(query) });
      if (tokens?.refused) return refuse(response, 401, "UNAUTHORIZED", "incorrect");
      const token = `token-${asked.length}`;
      usesOf.set(`Bearer ${token}`, asked.length > (tokens?.unknown ?? 0) ? (tokens?.uses ?? Infinity) : 0);
      return void response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ token }));
    }
    const uses = usesOf.get(headers.authorization ?? "") ?? 0;
    usesOf.set(headers.authorization ?? "", uses - 1);
    if (tokens !== undefined && uses <= 0) {
      request.resume();
      const scope = tokens.scope === undefined ? "" : `,scope="${tokens.scope}"`;
      const challenge = `Basic realm="no", Bearer realm="${url.origin}/token?a=b",service="a \\"service\\""${scope}`;
      return void response.writeHead(401, { "WWW-Authenticate": challenge }).end();
    }
    requests.push(`${method} ${url.pathname}`);
    if (always !== undefined) {
      request.resume();
      return void response.writeHead(always.status ?? 200, always.headers).end(always.body);
    }
    if (url.pathname === "/v2/") return void response.writeHead(200).end("{}");
    if (missing !== undefined) return refuse(response, missing.status, missing.code, "no such repository");
    if (method === "POST") {
      const id = crypto.randomUUID();
      uploads.add(id);
      return void response.writeHead(202, { Location: `../uploads?id=${id}` }).end();
    }
    const name = url.pathname.split("/").at(-1) ?? "";
    const isManifest = url.pathname.includes("/manifests/");
    if (method === "PUT" && !isManifest) return upload(request, response, url);
    if (method === "PUT") {
      manifests.set(name, await bodyOf(request));
      return void response.writeHead(201).end();
    }
    const held = content && Buffer.from(content.manifest);
    const found = isManifest ? (manifests.get(name) ?? held) : blobs.get(name);
    if (found === undefined) return void response.writeHead(404).end();
    if (method === "HEAD") return void response.writeHead(200, { "Content-Length": found.length }).end();
    // Without a length, the answer is sent in chunks, as the protocol permits to no registry.
    response.writeHead(200).write(found);
    response.end();
  }

  const listener = (request: IncomingMessage, response: ServerResponse) => void answer(request, response);
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    host: `127.0.0.1:${address.port}`,
    port: address.port,
    requests,
    tokens: asked,
    get largeUploads() {
      return largeUploads;
    },
    blobs,
    manifests,
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}

function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ errors: [{ code, message }] }));
}

/** The body of a request, or its beginning with at least `bytes` bytes. */
async function bodyOf(request: IncomingMessage, bytes = Infinity): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  // The loop may end before the body does. The connection stays open, because the request still needs an answer.
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    pieces.push(piece);
    size += piece.length;
    if (size >= bytes) break;
  }
  return Buffer.concat(pieces);
}
