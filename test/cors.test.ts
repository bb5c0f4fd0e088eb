/** Cross-origin requests: which pages of other origins may use the server. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { serveOptions } from "../src/server/config.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";

let store: TestStore;
const servers: TestServer[] = [];

beforeAll(async () => {
  store = await storeWith("lab");
});

afterAll(async () => {
  for (const server of servers) await server.stop();
  await store[Symbol.asyncDispose]();
});

const page = "https://page.example";

async function serve(corsOrigin?: readonly string[]) {
  const server = await store.serve("lab", { corsOrigin });
  servers.push(server);
  return (method: string, path: string, headers: Readonly<Record<string, string>> = {}) =>
    server.client.fetch(path, { method, headers: { Origin: page, ...headers } });
}

const allowed = ({ headers }: Response) => headers.get("access-control-allow-origin");

test("pages of other origins get no access by default", async () => {
  const send = await serve();
  expect(allowed(await send("GET", "/"))).toBeNull();
  expect((await send("OPTIONS", "/predictions", { "Access-Control-Request-Method": "POST" })).status).toBe(405);
});

test.each([
  { Origin: page },
  { Origin: page, "Sec-Fetch-Site": "cross-site" },
  { Origin: "http://api.localhost", "Sec-Fetch-Site": "same-site" },
])("by default, a page of another origin starts no work, by form or otherwise: %p", async (headers) => {
  const { client } = servers[0] ?? (await store.serve("lab"));
  for (const path of ["/predictions", "/demo", "/predictions/none/cancel"]) {
    const form = new FormData();
    form.set("number", "1");
    const refused = await client.fetch(path, { method: "POST", headers, body: form });
    expect([refused.status, await refused.json()]).toEqual([
      403,
      expect.objectContaining({ type: "urn:sconce:problem:origin_refused" }),
    ]);
  }
});

test("work is started by pages of an origin that --cors-origin names, by pages of the server, and by clients that are no browsers", async () => {
  const send = await serve([page]);
  const status = async (headers: Readonly<Record<string, string>>) => {
    const { client } = servers[0] ?? (await store.serve("lab"));
    return (await client.fetch("/predictions/none/cancel", { method: "POST", headers })).status;
  };
  expect((await send("POST", "/predictions/none/cancel", { "Sec-Fetch-Site": "cross-site" })).status).toBe(404);
  expect(await status({})).toBe(404);
  expect(await status({ Origin: page, "Sec-Fetch-Site": "same-origin" })).toBe(404);
});

test("with --cors-origin '*', every page reads every answer with its headers, problems too", async () => {
  const send = await serve(["*"]);
  for (const path of ["/", "/predictions/none", "/nothing", "/metrics"]) {
    const response = await send("GET", path);
    expect(allowed(response)).toBe("*");
    const exposed = response.headers.get("access-control-expose-headers")?.split(",");
    expect(exposed).toEqual(expect.arrayContaining(["X-Request-Id", "ETag", "Content-Range", "Preference-Applied"]));
    expect(response.headers.get("access-control-allow-credentials")).toBeNull();
  }
});

test.each([
  ["GET", "/nothing", 404, null],
  ["DELETE", "/predictions", 405, "POST"],
  ["POST", "/predictions/abc", 405, "HEAD, GET, PUT"],
])("a page of a named origin also reads refusals of the router: %s %s is %d", async (method, path, status, allow) => {
  const send = await serve([page]);
  const refused = await send(method, path);
  expect([refused.status, refused.headers.get("allow"), allowed(refused)]).toEqual([status, allow, page]);
});

test("a page of a named origin may send every method and header that the API accepts", async () => {
  const send = await serve(["https://other.example", page]);
  const asked = { "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type,prefer" };
  const preflight = await send("OPTIONS", "/predictions/0123456789abcdef", asked);
  expect([preflight.status, allowed(preflight)]).toEqual([204, page]);
  expect(preflight.headers.get("access-control-allow-methods")).toBe("GET,HEAD,POST,PUT");
  expect(preflight.headers.get("access-control-allow-headers")).toBe("content-type,prefer");
  expect(preflight.headers.get("vary")).toContain("Origin");
  expect(allowed(await send("GET", "/", { Origin: "https://page.example.evil" }))).toBeNull();
});

test.each(["null", "tauri://localhost", "capacitor://localhost", "chrome-extension://abcdefghijklmnop", "app://-"])(
  "an app or a file with the origin %s starts work if --cors-origin names it, else not",
  async (origin) => {
    const status = async (send: Awaited<ReturnType<typeof serve>>) =>
      (await send("POST", "/predictions/none/cancel", { Origin: origin, "Sec-Fetch-Site": "cross-site" })).status;
    const given = serveOptions.corsOrigin.parse.parse(`${page},${origin}`);
    const send = await serve(given);
    expect(await status(send)).toBe(404);
    expect(allowed(await send("GET", "/", { Origin: origin }))).toBe(origin);
    expect(await status(await serve([page]))).toBe(403);
  },
);

test("an app whose origin has the host and port of the server is no page of the server", async () => {
  const server = await store.serve("lab");
  servers.push(server);
  const cancel = (origin: string) =>
    server.client.fetch("/predictions/none/cancel", { method: "POST", headers: { Origin: origin } });
  expect((await cancel(server.url.origin)).status).toBe(404);
  const refused = await cancel(`tauri://${server.url.host}`);
  expect([refused.status, await refused.json()]).toEqual([
    403,
    expect.objectContaining({ type: "urn:sconce:problem:origin_refused" }),
  ]);
});

test.each(["page.example", "https://page.example/", "https://page.example,", "ftp://a", "app:", "tauri://a/b", ""])(
  "%p is no origin",
  (given) => {
    expect(serveOptions.corsOrigin.parse.safeParse(given).success).toBe(false);
  },
);
