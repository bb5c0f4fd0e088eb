/** Host names in requests: which names the server accepts. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { serveOptions } from "../src/server/config.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";

let store: TestStore;
let local: TestServer;
let listed: TestServer;
let open: TestServer;

beforeAll(async () => {
  store = await storeWith("lab");
  local = await store.serve("lab", { host: "127.0.0.1" });
  listed = await store.serve("lab", { host: "0.0.0.0", allowedHosts: ["models.example", "*.inner.example"] });
  open = await store.serve("lab", { host: "0.0.0.0" });
});

afterAll(async () => {
  for (const server of [local, listed, open]) await server?.stop();
  await store[Symbol.asyncDispose]();
});

/** @returns the status, and the code of a problem */
async function ask(server: TestServer, host: string, path = "/", method = "GET") {
  const answer = await server.client.fetch(path, { method, headers: { Host: host } });
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

test("a server on all addresses allows every name by default", async () => {
  expect(await ask(open, "models.example")).toBe(200);
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
