/**
 * `--base-path`: the server behind a proxy that adds a prefix to paths. The proxy may remove the prefix from
 * requests, or not.
 */
import { expect, test } from "bun:test";
import { serveOptions } from "../src/server/config.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const basePath = "/models/lab";
const server = new SharedServer(["lab"], "lab", { basePath });

test("the OpenAPI document names the prefix as its server", async () => {
  for (const prefix of ["", basePath]) {
    const document = await server.client.json(`${prefix}/openapi.json`);
    expect(document).toMatchObject({ servers: [{ url: basePath }] });
  }
});

test.each(["", basePath])("a request to %p/predictions gets a Location that a client can read", async (prefix) => {
  const created = await server.client.at(`${prefix}/predictions`).post([{ x: 1 }], { Prefer: "wait" });
  const location = created.headers.get("location") ?? "";
  expect(location).toStartWith(`${basePath}/predictions/`);
  expect(await server.client.json(location)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  const stripped = location.slice(basePath.length);
  expect(await server.client.json(stripped)).toMatchObject({ status: "success" });
});

test("all routes answer below the prefix, and metrics count them by their route", async () => {
  const metric = 'sconce_http_requests_total{route="/v1/models",code="200"}';
  const before = await server.client.metric(metric);
  for (const path of ["/", "/docs", "/demo", "/health/ready", "/metrics", "/v2", "/v1/models"]) {
    expect([path, await server.client.status(`${basePath}${path}`)]).toEqual([path, 200]);
  }
  expect(await server.client.status(basePath)).toBe(200);
  expect(await server.client.metric(metric)).toBe(before + 1);
});

test("a path that only begins like the prefix is not below it", async () => {
  expect(await server.client.status(`${basePath}s/predictions/none`)).toBe(404);
  expect(await server.client.status(`${basePath}s/health/live`)).toBe(404);
});

test.each(["", "/a", "/models/digits-1.0"])("--base-path takes %p", (path) => {
  expect(serveOptions.basePath.parse.safeParse(path).success).toBe(true);
});

test.each(["a", "/", "/a/", "//a", "/a b", "http://a/b"])("--base-path refuses %p", (path) => {
  expect(serveOptions.basePath.parse.safeParse(path).success).toBe(false);
});
