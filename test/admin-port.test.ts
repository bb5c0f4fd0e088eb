/**
 * Routes of the public port and of the admin port, with `--admin-port`, and `--api` without page and docs.
 * Warnings at the start of a server without keys.
 */
import { describe, expect, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { makeKey } from "../src/cli/commands/key.ts";
import type { Permission } from "../src/http/access/key-file.ts";
import { serveOptions } from "../src/server/config.ts";
import { adminOf, clientOf } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const adminPort = { host: "127.0.0.1", port: 0 };

const store = fixture(() => storeWith("lab"));
const server = fixture(() => store.serve("lab", { adminPort, corsOrigin: ["*"], host: "0.0.0.0" }));
const admin = fixture(() => server.admin ?? server.client);

const status = async (client: Client, method: string, path: string, headers: Readonly<Record<string, string>> = {}) =>
  (await client.fetch(path, { method, headers })).status;

describe("with --admin-port", () => {
  test.each([
    ["GET", "/metrics", 404, 200],
    ["GET", "/metrics/", 404, 200],
    ["GET", "/%6detrics", 404, 200],
    ["HEAD", "/metrics", 404, 200],
    ["POST", "/reload/none", 404, 404],
    ["GET", "/reload", 404, 405],
    ["POST", "/reload", 404, 409],
    ["POST", "/v2/repository/models/lab/load", 404, 200],
    ["POST", "/v2/repository/index", 200, 200],
    ["GET", "/health/ready", 200, 200],
    ["GET", "/health/live", 200, 200],
    ["GET", "/", 200, 404],
    ["GET", "/demo", 200, 404],
    ["GET", "/docs", 200, 404],
    ["GET", "/openapi.json", 200, 404],
    ["GET", "/predictions/none", 404, 404],
    ["POST", "/predictions", 400, 404],
    ["GET", "/v2/models/lab", 200, 404],
    ["POST", "/mcp", 400, 404],
  ])("%s %s is %d on the public port and %d on the admin port", async (method, path, shown, adminShown) => {
    expect([await status(server.client, method, path), await status(admin, method, path)]).toEqual([shown, adminShown]);
  });

  test("/metrics counts the requests of both ports", async () => {
    await server.client.predict([{ x: 1 }]);
    const text = await admin.text("/metrics");
    expect(text).toMatch(/^sconce_predictions_total\{model="lab",status="success"\} [1-9]/m);
    expect(text).toMatch(/^sconce_http_requests_total\{route="\/metrics",code="200"\} [1-9]/m);
  });

  test("pages of other origins do not reach the admin port, also with --cors-origin *", async () => {
    const origin = { Origin: "https://page.example" };
    const read = await admin.fetch("/metrics", { headers: origin });
    expect(read.headers.get("access-control-allow-origin")).toBeNull();
    expect(await status(admin, "POST", "/reload", origin)).toBe(403);
    expect(await status(admin, "POST", "/reload", { "Sec-Fetch-Site": "cross-site" })).toBe(403);
    expect(await status(admin, "GET", "/metrics", { Host: "rebound.example" })).toBe(403);
    expect(await status(server.client, "GET", "/", { Host: "rebound.example" })).toBe(200);
    expect(await status(admin, "GET", "/health/ready")).toBe(200);
  });

  test("its value may have an address, also of IPv6", async () => {
    const { parse } = serveOptions.adminPort;
    expect(parse.parse("9000")).toEqual({ host: "127.0.0.1", port: 9000 });
    expect(parse.parse("0.0.0.0:9000")).toEqual({ host: "0.0.0.0", port: 9000 });
    expect(parse.parse("[::1]:0")).toEqual({ host: "::1", port: 0 });
    for (const wrong of ["", ":9000", "::1:9000", "host:", "127.0.0.1:65536", "http://host:9000"])
      expect(() => parse.parse(wrong)).toThrow("must be a port from 0 to 65535, or an address and a port");
    await using other = await store.serve("lab", { adminPort: { host: "127.0.0.2", port: 0 } });
    expect(other.admin?.url.hostname).toBe("127.0.0.2");
    expect(await status(other.admin ?? other.client, "GET", "/metrics")).toBe(200);
  });

  test("a used port is named with its option", async () => {
    const taken = Number(server.admin?.url.port);
    await expect(store.serve("lab", { adminPort: { ...adminPort, port: taken } })).rejects.toThrow(
      /in use.*--admin-port/,
    );
  });
});

test("with several models, only the admin port has the metrics and the repository routes of each model", async () => {
  await using two = await storeWith("lab", "parts");
  await using running = two.start(["lab", "parts", "--admin-port", "0"]);
  const port = await adminOf(running);
  const client = await clientOf(running);
  for (const path of ["/metrics", "/models/lab/metrics", "/models/parts/metrics"])
    expect([path, await status(client, "GET", path), await status(port, "GET", path)]).toEqual([path, 404, 200]);
  for (const path of ["/v2/repository/models/parts/load", "/models/parts/reload", "/reload"])
    expect([path, await status(client, "POST", path)]).toEqual([path, 404]);
  expect(await status(port, "POST", "/v2/repository/models/parts/load")).toBe(200);
  for (const path of ["/models", "/models/parts", "/models/parts/demo", "/models/parts/predictions/none"])
    expect([path, await status(port, "GET", path)]).toEqual([path, 404]);
  expect(await status(client, "GET", "/models")).toBe(200);
});

test("without --admin-port, the port has /metrics and no /reload", async () => {
  await using plain = await store.serve("lab");
  expect(await status(plain.client, "GET", "/metrics")).toBe(200);
  expect(await status(plain.client, "POST", "/reload")).toBe(404);
});

test("API keys need the permission admin for /reload, and metrics for /metrics", async () => {
  await using dir = await tempDir();
  const path = dir.join("keys.toml");
  const add = (name: string, only: readonly Permission[]) => {
    const { secret, entry } = makeKey({ name, only });
    appendFileSync(path, `${entry}\n`);
    return { Authorization: `Bearer ${secret}` };
  };
  const client = add("client", ["predictions", "read"]);
  const monitor = add("monitor", ["metrics"]);
  const admins = add("admin", ["admin"]);
  await using keyed = await store.serve("lab", { adminPort, apiKeys: path });
  const port = keyed.admin ?? keyed.client;
  const asked = [
    ["GET", "/metrics"],
    ["POST", "/reload"],
    ["POST", "/v2/repository/models/lab/unload"],
  ] as const;
  const statuses = (headers: Readonly<Record<string, string>>) =>
    Promise.all(asked.map(([method, path]) => status(port, method, path, headers)));
  expect(await statuses({})).toEqual([401, 401, 401]);
  expect(await statuses(client)).toEqual([403, 403, 403]);
  expect(await statuses(monitor)).toEqual([200, 403, 403]);
  expect(await status(port, "GET", "/metrics", admins)).toBe(403);
  expect(await status(port, "POST", "/v2/repository/models/lab/unload", admins)).toBe(200);
  expect(await status(port, "GET", "/health/ready")).toBe(200);
});

describe("--api without page and docs", () => {
  const html = { Accept: "text/html" };

  test("remove the routes, and nothing else", async () => {
    await using bare = await store.serve("lab", { api: ["v2", "openai", "mcp"] });
    for (const path of ["/demo", "/demo/"]) expect(await status(bare.client, "GET", path, html)).toBe(405);
    for (const path of ["/docs", "/docs/", "/openapi.json", "/docs/assets/a/b", "/demo/assets/a/b"])
      expect([path, await status(bare.client, "GET", path, html)]).toEqual([path, 404]);
    const root = await bare.client.fetch("/", { headers: html, redirect: "manual" });
    expect(await root.json()).toMatchObject({ name: "lab" });
    expect(await bare.client.predict([{ x: 1 }])).toMatchObject({ status: "success" });
    expect((await bare.client.demos.post([{ x: 1 }])).status).toBe(200);
    expect(await bare.client.text("/nothing")).not.toContain("/docs");
  });

  test("are independent", async () => {
    await using pageOnly = await store.serve("lab", { api: ["page"] });
    expect(await status(pageOnly.client, "GET", "/demo", html)).toBe(200);
    await using docsOnly = await store.serve("lab", { api: ["docs"] });
    expect(await status(docsOnly.client, "GET", "/docs", html)).toBe(200);
    expect(await status(docsOnly.client, "GET", "/openapi.json")).toBe(200);
  });
});

describe("at its start, a server", () => {
  const said = "Everyone who reaches the port may use the server";
  const linesOf = async (...args: string[]) => {
    await using running = store.startCli(["serve", "lab", "-p", "0", ...args]);
    await running.line("Listening on");
    running.kill("SIGTERM");
    await running.exited;
    return running.lines;
  };

  test("without keys on all addresses says how to restrict it, in lines with times", async () => {
    const lines = await linesOf();
    expect(lines.some((line) => line.includes(said) && line.includes("--host 127.0.0.1 or --api-keys"))).toBe(true);
    // Every line begins with the time, also a warning.
    expect(lines.filter((line) => !/^\d{4}-\d\d-\d\dT[\d:.]{12}Z \S/.test(line))).toEqual([]);
  });

  test("on a loopback address says nothing", async () => {
    expect((await linesOf("--host", "127.0.0.1")).filter((line) => line.includes(said))).toEqual([]);
  });
});
