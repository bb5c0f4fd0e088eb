/** The OpenAPI document of a server, compared with the server's answers. */
import { expect, test } from "bun:test";
import { z } from "../src/index.ts";
import type { Client } from "./helpers/client.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["texts"], "texts");

const documentSchema = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({}))),
  components: z.looseObject({ schemas: z.record(z.string(), z.looseObject({})) }),
});

async function documentOf(client: Client) {
  return documentSchema.parse(await client.json("/openapi.json"));
}

test("Allow lists the documented methods of each path of a server", async () => {
  const { paths } = await documentOf(server.client);
  for (const [path, operations] of Object.entries(paths)) {
    const { headers } = await server.client.fetch(path.replace(/\{.*?\}/g, "0"), { method: "OPTIONS" });
    const documented = Object.keys(operations).map((method) => method.toUpperCase());
    const allowed = (headers.get("allow") ?? "").split(", ").filter((method) => method !== "HEAD");
    expect([path, allowed.sort()]).toEqual([path, documented.sort()]);
  }
});
