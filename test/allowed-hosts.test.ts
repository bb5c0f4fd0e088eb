/** The Host header of requests: which host names the server accepts. */
import { expect, test } from "bun:test";
import { makeKey } from "../src/cli/commands/key.ts";
import { serveOptions } from "../src/server/config.ts";
import { hasBrowser, openBrowser } from "./helpers/browser.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab"));
const local = fixture(() => store.serve("lab", { host: "127.0.0.1" }));
const listed = fixture(() =>
  store.serve("lab", { host: "0.0.0.0", allowedHosts: ["models.example", "*.inner.example"] }),
);
const open = fixture(() => store.serve("lab", { host: "0.0.0.0" }));

/** Sends a request with a Host header. @returns the status, with the error code if there is one */
async function ask(server: TestServer, host: string, path = "/", method = "GET", headers = {}) {
  const answer = await server.client.fetch(path, { method, headers: { Host: host, ...headers } });
  const { type } = answer.status < 400 ? {} : ((await answer.json()) as { type?: string });
  return type === undefined ? answer.status : `${answer.status} ${type.split(":").at(-1)}`;
}

test.each(["localhost:3000", "LOCALHOST", "api.localhost", "127.0.0.1", "10.1.2.3:8080", "[::1]:3000", "[fd00::1]"])(
  "a server on a loopback address allows %s",
  async (host) => {
    expect(await ask(local, host)).toBe(200);
  },
);

test.each(["rebound.example", "rebound.example:3000", "127.0.0.1.example", "localhost.example", "front"])(
  "a server on a loopback address refuses %s on every route but /health",
  async (host) => {
    expect(await ask(local, host)).toBe("403 host_refused");
    expect(await ask(local, host, "/metrics")).toBe("403 host_refused");
    expect(await ask(local, host, "/predictions/none")).toBe("403 host_refused");
    expect(await ask(local, host, "/predictions", "POST")).toBe("403 host_refused");
    expect(await ask(local, host, "/health/live")).toBe(200);
  },
);

test("--allowed-hosts allows its names, and names below a wildcard", async () => {
  expect(await ask(listed, "models.example:443")).toBe(200);
  expect(await ask(listed, "MODELS.example.")).toBe(200);
  expect(await ask(listed, "a.inner.example")).toBe(200);
  expect(await ask(listed, "localhost")).toBe(200);
  expect(await ask(listed, "inner.example")).toBe("403 host_refused");
  expect(await ask(listed, "other.example")).toBe("403 host_refused");
});

const language = { "Accept-Language": "en" };

test("a server on all addresses allows every name by default, but refuses browsers that use a public name over plain HTTP", async () => {
  expect(await ask(open, "models.example")).toBe(200);
  expect(await ask(open, "models.example", "/", "GET", language)).toBe("403 host_refused");
  expect(await ask(open, "models.example", "/health/ready", "GET", language)).toBe(200);
  const origin = { Origin: "http://models.example:3000" };
  expect(await ask(open, "models.example:3000", "/predictions/none/cancel", "POST", origin)).toBe("403 host_refused");
  // Browsers send Sec-Fetch-Mode only over HTTPS. DNS rebinding fails there: the server has no certificate for an
  // attacker's host name.
  expect(await ask(open, "models.example", "/", "GET", { ...language, "Sec-Fetch-Mode": "navigate" })).toBe(200);
  // The request comes from a page of another origin: --cors-origin decides about it, not the host check.
  expect(await ask(open, "models.example", "/", "GET", { ...language, Origin: "http://app.example" })).toBe(200);
});

test.each(["gpu-3:3000", "gpu.local", "gpu.lab.internal", "gpu.home.arpa", "10.0.0.3:3000", "[fd00::3]:3000"])(
  "a browser reaches a server on all addresses as %s",
  async (host) => {
    expect(await ask(open, host, "/", "GET", language)).toBe(200);
  },
);

test("with API keys or --allowed-hosts, a browser reaches the server by a public name", async () => {
  expect(await ask(listed, "models.example", "/", "GET", language)).toBe(200);
  await using dir = await tempDir();
  const { entry } = makeKey({ name: "a" });
  await Bun.write(dir.join("keys.toml"), entry);
  await using keyed = await store.serve("lab", { host: "0.0.0.0", apiKeys: dir.join("keys.toml") });
  expect(await ask(keyed, "models.example", "/", "GET", language)).toBe("401 key_required");
});

test("a malformed name that a browser accepts is refused, too", async () => {
  expect(await ask(local, "a!b.rebound.example")).toBe("403 host_refused");
  expect(await ask(open, "a!b.rebound.example", "/", "GET", language)).toBe("403 host_refused");
});

test.skipIf(!hasBrowser)("a page whose host name resolves to the server can read and start nothing there", async () => {
  await using browser = await openBrowser(["*.example", "gpu.internal"]);
  const port = open.client.url.port;
  const status = (request: string) => browser.evaluate<number>(`fetch(${request}).then(({ status }) => status)`);
  for (const host of ["rebound.example", "a!b.rebound.example"]) {
    await browser.open(`http://${host}:${port}/health/live`);
    const quiet = `referrerPolicy: "no-referrer", headers: { "Accept-Language": "", "Sec-Fetch-Mode": "cors" }`;
    expect(await status(`"/", { ${quiet} }`)).toBe(403);
    expect(await status(`"/predictions", { method: "POST", body: "[]", ${quiet} }`)).toBe(403);
    expect(await status(`"/health/live"`)).toBe(200);
  }
  await browser.open(`http://gpu.internal:${port}/demo`);
  await browser.until(`document.querySelector('button[type="submit"]') !== null`);
});

test("a refusal names the option that allows the host", async () => {
  const answer = await local.client.fetch("/", { headers: { Host: "models.example" } });
  expect(await answer.json()).toMatchObject({
    status: 403,
    detail: 'requests to the host "models.example" are refused here; --allowed-hosts models.example allows them',
  });
});

test.each(["https://models.example", "models.example:80", "a,,b", "*.*.example"])(
  "--allowed-hosts %s is refused",
  (given) => {
    expect(serveOptions.allowedHosts.parse.safeParse(given).success).toBe(false);
  },
);
