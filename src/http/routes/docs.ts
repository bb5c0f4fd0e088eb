/** The routes of the OpenAPI document, of its interactive page (Swagger UI, with files from this program) and of the icon. */
import { swaggerUI } from "@hono/swagger-ui";
import type { Hono } from "hono";
import swaggerStyle from "#swagger-ui/swagger-ui.css" with { type: "file" };
import swaggerScript from "#swagger-ui/swagger-ui-bundle.js" with { type: "file" };
import { addAssets } from "../assets.ts";
import { documentOf, serverAt } from "../openapi/document.ts";
import type { HttpOptions } from "../options.ts";
import { securityHeaders } from "../page/page.ts";
import { contextOf, modelOf, perModel } from "../request.ts";
import type { Route } from "../route.ts";

const files = {
  "swagger-ui-bundle.js": { path: swaggerScript, type: "text/javascript; charset=utf-8" },
  "swagger-ui.css": { path: swaggerStyle, type: "text/css; charset=utf-8" },
};

/** The icon of the server: a torch in a wall bracket. */
const favicon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#e25822" d="M8 0c3 3 3 4 3 5a3 3 0 0 1-6 0c0-1 1-2 3-5z"/><path fill="#555" d="M5 8h6l-2 8H7z"/></svg>`;

/** Name of the sessionStorage entry with the API key. The model's page uses the same entry. */
const stored = '"sconce-api-key"';
const requestInterceptor = `(request) => {
  const key = sessionStorage.getItem(${stored});
  if (key !== null && request.headers.Authorization === undefined) request.headers.Authorization = "Bearer " + key;
  return request;
}`;
/** JavaScript that asks the user for an API key if the server refuses openapi.json. */
const responseInterceptor = `(response) => {
  if (response.status !== 401 || !response.url.endsWith("/openapi.json")) return response;
  const key = prompt("API key");
  if (key !== null) {
    sessionStorage.setItem(${stored}, key.trim());
    location.reload();
  }
  return response;
}`;

/** The page's inline scripts as sources of its Content-Security-Policy, by their digests. */
function scriptsIn(page: string): string {
  const scripts = page.matchAll(/<script>([\s\S]*?)<\/script>/g);
  const digests = [...scripts].map(([, script = ""]) => new Bun.CryptoHasher("sha256").update(script).digest("base64"));
  return ["'self'", ...digests.map((digest) => `'sha256-${digest}'`)].join(" ");
}

/** Adds GET /docs. On a server with API keys, the page asks the user for a key, and does not show the model's name. */
export function addDocsPage(app: Pick<Hono, "get">, hasKeys: boolean): void {
  app.get("/docs", async (c, next) => {
    const { name } = modelOf(c);
    // Redirects /docs/ to /docs: the page's links are relative to /docs, so that they work behind a proxy with a path prefix.
    if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../docs" });
    const made = await swaggerUI({
      title: hasKeys ? "sconce" : `${name} · sconce`,
      url: "openapi.json",
      baseUrl: "docs/assets",
      displayRequestDuration: true,
      tryItOutEnabled: true,
      deepLinking: true,
      ...(hasKeys ? { requestInterceptor, responseInterceptor } : {}),
    })(c, next);
    const page = await (made ?? new Response()).text();
    // Swagger UI needs inline styles and data URIs.
    const sources = { scripts: scriptsIn(page), styles: "'self' 'unsafe-inline'", files: "'self' data: blob:" };
    return c.html(page, 200, securityHeaders(sources));
  });
  addAssets(app, "/docs", "/docs/assets/swagger-ui-dist", files);
}

interface DocumentOptions {
  readonly config: Pick<HttpOptions, "basePath" | "webhookSecret">;
  readonly keys: unknown;
  readonly version: string;
}

/** Adds GET /openapi.json. The document of a model is made at the first request for it. */
export function addDocument(
  app: Pick<Hono, "get">,
  routes: readonly Route[],
  { config, keys, version }: DocumentOptions,
): void {
  const facts = { version, hasKeys: keys !== undefined, hasWebhooks: config.webhookSecret.length > 0 };
  const document = perModel((model) => documentOf(routes, model, facts));
  app.get("/openapi.json", (c) => {
    const basePath = `${config.basePath}${contextOf(c).modelPath}`;
    return c.json({ ...document(c), servers: [serverAt(basePath || "/")] });
  });
}

export function addFavicon(app: Pick<Hono, "get">): void {
  // Browsers always request this icon. Without a route, metrics would count the requests as errors.
  app.get("/favicon.ico", (c) =>
    c.body(favicon, 200, { "Content-Type": "image/svg+xml", "Cache-Control": "public, max-age=86400" }),
  );
}
