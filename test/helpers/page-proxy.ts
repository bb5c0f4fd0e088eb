/**
 * A proxy before a server, for tests of the model's page. It can lose answers to POST, stop, and
 * start again. It records the requests.
 */

export interface PageProxy extends AsyncDisposable {
  readonly url: URL;
  /** Bodies of POST requests, in order. */
  readonly posted: unknown[];
  /** The header Location of the server's answers to POST requests, in order. */
  readonly created: (string | null)[];
  /** Paths of all requests, in order. */
  readonly paths: string[];
  /** Stops the proxy: it closes all connections, and refuses new ones until `comeBack`. */
  leave(): Promise<void>;
  comeBack(): void;
}

export function pageProxy(upstream: URL, { lostAnswers = 0 } = {}): PageProxy {
  const posted: unknown[] = [];
  const paths: string[] = [];
  const created: (string | null)[] = [];
  const open = (port: number) =>
    Bun.serve({
      port,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      async fetch(request) {
        const { pathname } = new URL(request.url);
        const { method, headers, signal } = request;
        paths.push(pathname);
        const body = method === "POST" ? await request.text() : null;
        if (body !== null) posted.push(JSON.parse(body || "null"));
        const answer = await fetch(new URL(pathname, upstream), {
          method,
          headers,
          body,
          signal,
          redirect: "manual",
          decompress: false,
        });
        if (method !== "POST") return answer;
        created.push(answer.headers.get("location"));
        return posted.length > lostAnswers ? answer : new Response(null, { status: 502 });
      },
    });
  let server = open(0);
  const url = new URL(server.url);
  return {
    url,
    posted,
    created,
    paths,
    leave: () => server.stop(true),
    comeBack: () => {
      server = open(Number(url.port));
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}
