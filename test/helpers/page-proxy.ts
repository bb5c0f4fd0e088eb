/** A proxy before a server, for tests of the model's page. The proxy records the requests. */

export interface PageProxy extends AsyncDisposable {
  readonly url: URL;
  /** Bodies of POST requests, in order. */
  readonly posted: unknown[];
  /** Paths of all requests, in order. */
  readonly paths: string[];
  /** Stops the proxy: it closes all connections, and refuses new ones. */
  leave(): Promise<void>;
}

export function pageProxy(upstream: URL): PageProxy {
  const posted: unknown[] = [];
  const paths: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const { method, headers, signal } = request;
      paths.push(pathname);
      const body = method === "POST" ? await request.text() : null;
      if (body !== null) posted.push(JSON.parse(body || "null"));
      return fetch(new URL(pathname, upstream), {
        method,
        headers,
        body,
        signal,
        redirect: "manual",
        decompress: false,
      });
    },
  });
  const leave = () => server.stop(true);
  return { url: new URL(server.url), posted, paths, leave, [Symbol.asyncDispose]: leave };
}
