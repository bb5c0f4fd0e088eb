/** Cross-origin requests: which pages of other origins may use the server. */
import { expect, test } from "bun:test";
import { serveOptions } from "../src/server/config.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const page = "https://page.example";

const store = fixture(() => storeWith("lab"));
const closed = fixture(() => store.serve("lab"));
const named = fixture(() => store.serve("lab", { corsOrigin: ["https://other.example", page] }));

const send = (to: TestServer, method: string, path: string, headers: Readonly<Record<string, string>> = {}) =>
  to.client.fetch(path, { method, headers: { Origin: page, ...headers } });

const allowed = ({ headers }: Response) => headers.get("access-control-allow-origin");

test("pages of other origins get no access by default", async () => {
  expect(allowed(await send(closed, "GET", "/"))).toBeNull();
  expect((await send(closed, "OPTIONS", "/predictions", { "Access-Control-Request-Method": "POST" })).status).toBe(405);
});

test.each([
  { Origin: page },
  { Origin: page, "Sec-Fetch-Site": "cross-site" },
  { Origin: "http://api.localhost", "Sec-Fetch-Site": "same-site" },
])("by default, a page of another origin starts no work, by form or otherwise: %p", async (headers) => {
  for (const path of ["/predictions", "/demo", "/predictions/none/cancel"]) {
    const form = new FormData();
    form.set("number", "1");
    const refused = await closed.client.fetch(path, { method: "POST", headers, body: form });
    expect([refused.status, await refused.json()]).toEqual([
      403,
      expect.objectContaining({ type: "urn:sconce:problem:origin_refused" }),
    ]);
  }
});

test("work is started by pages of an origin that --cors-origin names, by pages of the server, and by clients that are no browsers", async () => {
  const path = "/predictions/none/cancel";
  const status = async (headers: Readonly<Record<string, string>>) =>
    (await closed.client.fetch(path, { method: "POST", headers })).status;
  expect((await send(named, "POST", path, { "Sec-Fetch-Site": "cross-site" })).status).toBe(404);
  expect(await status({})).toBe(404);
  expect(await status({ Origin: page, "Sec-Fetch-Site": "same-origin" })).toBe(404);
});

test("with --cors-origin '*', every page reads every answer with its headers, problems too", async () => {
  await using open = await store.serve("lab", { corsOrigin: ["*"] });
  for (const path of ["/", "/predictions/none", "/nothing", "/metrics"]) {
    const response = await send(open, "GET", path);
    expect(allowed(response)).toBe("*");
    const exposed = response.headers.get("access-control-expose-headers")?.split(",");
    expect(exposed).toEqual(expect.arrayContaining(["X-Request-Id", "Preference-Applied"]));
    expect(response.headers.get("access-control-allow-credentials")).toBeNull();
  }
});

test.each([
  ["GET", "/nothing", 404, null],
  ["DELETE", "/predictions", 405, "POST"],
  ["POST", "/predictions/abc", 405, "HEAD, GET, PUT"],
])("a page of a named origin also reads refusals of the router: %s %s is %d", async (method, path, status, allow) => {
  const refused = await send(named, method, path);
  expect([refused.status, refused.headers.get("allow"), allowed(refused)]).toEqual([status, allow, page]);
});

test("a page of a named origin may send every method and header that the API accepts", async () => {
  const asked = { "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type,prefer" };
  const preflight = await send(named, "OPTIONS", "/predictions/0123456789abcdef", asked);
  expect([preflight.status, allowed(preflight)]).toEqual([204, page]);
  expect(preflight.headers.get("access-control-allow-methods")).toBe("GET,HEAD,POST,PUT");
  expect(preflight.headers.get("access-control-allow-headers")).toBe("content-type,prefer");
  expect(preflight.headers.get("vary")).toContain("Origin");
  expect(allowed(await send(named, "GET", "/", { Origin: "https://page.example.evil" }))).toBeNull();
});

const apps = ["null", "tauri://localhost", "capacitor://localhost", "chrome-extension://abcdefghijklmnop", "app://-"];
const ofApps = fixture(() =>
  store.serve("lab", { corsOrigin: serveOptions.corsOrigin.parse.parse([page, ...apps].join(",")) }),
);

test.each(apps)(
  "an app or a file with the origin %s starts work if --cors-origin names it, else not",
  async (origin) => {
    const headers = { Origin: origin, "Sec-Fetch-Site": "cross-site" };
    const status = async (to: TestServer) => (await send(to, "POST", "/predictions/none/cancel", headers)).status;
    expect(await status(ofApps)).toBe(404);
    expect(allowed(await send(ofApps, "GET", "/", headers))).toBe(origin);
    expect(await status(named)).toBe(403);
  },
);

test("an app whose origin has the host and port of the server is no page of the server", async () => {
  const cancel = (origin: string) => send(closed, "POST", "/predictions/none/cancel", { Origin: origin });
  expect((await cancel(closed.url.origin)).status).toBe(404);
  const refused = await cancel(`tauri://${closed.url.host}`);
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
