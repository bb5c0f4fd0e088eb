/** The OpenAPI document of a server, compared with the server's answers. */
import { describe, expect, test } from "bun:test";
import { z } from "../src/index.ts";
import type { Client } from "./helpers/client.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["texts"], "texts");

const documentSchema = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({}))),
  components: z.looseObject({ schemas: z.record(z.string(), z.looseObject({})) }),
});

async function documentOf(client: Client) {
  return documentSchema.parse(await (await client.fetch("/openapi.json")).json());
}

describe("Allow lists the documented methods of each path of a server", () => {
  const allowed = async (client: Client) => {
    const { paths } = await documentOf(client);
    const entries = Object.entries(paths).map(async ([path, operations]) => {
      const { headers } = await client.fetch(path.replace(/\{.*?\}/g, "0"), { method: "OPTIONS" });
      const methods = (headers.get("allow") ?? "").split(", ").filter((method) => method !== "HEAD");
      const documented = Object.keys(operations).map((method) => method.toUpperCase());
      return { path, allowed: methods.sort(), documented: documented.sort() };
    });
    return Promise.all(entries);
  };

  test.each([
    ["with a page", {}, ["GET", "POST"]],
    ["without the page", { api: ["docs"] as const }, ["POST"]],
  ])("%s", async (_, options, ofDemo) => {
    await using other = await server.beside("texts", options);
    const all = await allowed(other.client);
    expect(all.filter(({ allowed, documented }) => String(allowed) !== String(documented))).toEqual([]);
    expect(all.find(({ path }) => path === "/demo")?.allowed).toEqual(ofDemo);
  });
});

test("GET /demo has the documented headers", async () => {
  const { paths } = await documentOf(server.client);
  const declared = z
    .looseObject({
      responses: z.looseObject({
        200: z.looseObject({ headers: z.record(z.string(), z.unknown()), content: z.unknown() }),
      }),
    })
    .parse(paths["/demo"]?.get);
  const { headers, content } = declared.responses[200];
  const response = await server.client.fetch("/demo");
  expect(content).toHaveProperty([response.headers.get("content-type")?.split(";")[0] ?? ""]);
  for (const name of Object.keys(headers)) expect([name, response.headers.has(name)]).toEqual([name, true]);
});
