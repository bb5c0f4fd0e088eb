/** The table of routes of a front, for tests of the OpenAPI document. */
import { routesOf } from "../../src/http/app.ts";
import type { Route } from "../../src/http/route.ts";
import { Lifecycle } from "../../src/http/routes/health.ts";
import { Uploads } from "../../src/http/uploads.ts";
import { MemoryAccount } from "../../src/pipeline/memory/memory-account.ts";

export function tableOfRoutes(): Route[] {
  const memory = new MemoryAccount();
  return routesOf({
    names: { list: [], named: () => undefined },
    config: {
      basePath: "",
      host: "127.0.0.1",
      allowedHosts: undefined,
      corsOrigin: undefined,
      api: ["page", "docs"],
      adminPort: undefined,
      maxBodyBytes: 2 ** 20,
      webhookSecret: [],
    },
    keys: undefined,
    lifecycle: new Lifecycle(),
    allMetrics: { text: () => "" },
    isQueued: false,
    memory,
    uploads: new Uploads(),
  });
}

export const plainDocument = { version: "1.2.3", hasKeys: false, hasWebhooks: false };
