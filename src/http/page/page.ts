/**
 * GET /demo, the page on which people try the model, and the page that lists the models of a server. Both use files that are part of this program.
 */
import type { Context, Hono } from "hono";
import { accepts } from "hono/accepts";
import { html } from "hono/html";
import pageStyle from "#page/page.css" with { type: "file" };
import pageScript from "#page/page.js" with { type: "file" };
import type { ModelState } from "../../base/labels.ts";
import { ImmutableAssets } from "../assets.ts";
import { urlOf } from "../request.ts";

const assets = new ImmutableAssets({
  page: "/demo",
  label: "page",
  files: {
    "page.js": { path: pageScript, type: "text/javascript; charset=utf-8" },
    "page.css": { path: pageStyle, type: "text/css; charset=utf-8" },
  },
});

/** Images and media may come from any host, because inputs and outputs may be URLs. Scripts and styles come from this server only. */
const files = "'self' data: blob: http: https:";
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  `img-src ${files}`,
  `media-src ${files}`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join("; ");
const headers = { ...securityHeaders(policy), "Cache-Control": "no-cache" };

const start = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">`;

export interface PageModel {
  readonly name: string;
  readonly description: string;
  /** Whether the model is loaded. Until then only browsers get the page, with status 503, and the page waits for the model. */
  readonly isReady: boolean;
  /** Relative URL to which GET / redirects browsers; by default the page of the model. */
  readonly home?: string | undefined;
}

export function addPageRoutes(app: Pick<Hono, "get">, { name, description, isReady, home = "demo" }: PageModel): void {
  app.get("/", (c, next) => {
    c.header("Vary", "Accept");
    return prefersHtml(c) ? Promise.resolve(c.redirect(below(c, home))) : next();
  });
  app.get("/demo", async (c, next) => {
    if (!isReady && !prefersHtml(c)) return next();
    // Redirects /demo/ to /demo, because the page's URLs are relative to /demo.
    if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../demo" });
    const folder = `demo/assets/${await assets.folder()}`;
    if (!isReady) c.header("Retry-After", "1");
    const page = html`${start}
<meta name="description" content="${description}">
<title>${name}</title>
<link rel="icon" href="favicon.ico">
<link rel="stylesheet" href="${folder}/page.css">
<script type="module" src="${folder}/page.js"></script>
</head>
<body><noscript>This page needs JavaScript; <a href="docs">the documentation of the API</a> says how programs call ${name}.</noscript></body>
</html>
`;
    return c.html(page, isReady ? 200 : 503, headers);
  });
  assets.addRoute(app);
}

interface PageListModel {
  readonly name: string;
  readonly state: ModelState;
  readonly reason: string | undefined;
  readonly served: Pick<PageModel, "description"> | undefined;
}

/** The page that lists the models of a server. It has the style of the models' pages, and no script. */
export async function listPage(c: Context, models: readonly PageListModel[]): Promise<Response> {
  // "./": a browser takes `digits:v1/demo` for a URL with the scheme `digits`.
  const [folder, root] = new URL(urlOf(c.req.raw)).pathname.endsWith("/") ? ["./", "../"] : ["models/", ""];
  const kinds = { ready: "good", loading: "busy", draining: "busy", unloaded: "", failed: "bad" } as const;
  const items = models.map(
    ({ name, served, state, reason }) => html`<li><a class="panel" href="${folder}${name}/demo">
<h2>${name}</h2><p>${served?.description ?? ""}</p><span class="status ${kinds[state]}">${state}${reason === undefined ? "" : `: ${reason}`}</span>
</a></li>`,
  );
  const page = html`${start}
<title>Models</title>
<link rel="icon" href="${root}favicon.ico">
<link rel="stylesheet" href="${root}demo/assets/${await assets.folder()}/page.css">
</head>
<body><h1>Models</h1><ul class="models">${items}</ul></body>
</html>
`;
  return c.html(page, 200, headers);
}

/** Headers of answers with HTML. @param policy the Content-Security-Policy */
export function securityHeaders(policy: string) {
  return { "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff" };
}

/** The URL of a page, relative to the requested path, so that it works behind a proxy with a path prefix. */
function below(c: Context, page: string): string {
  const [, last = ""] = /([^/]*)$/.exec(new URL(urlOf(c.req.raw)).pathname) ?? [];
  return last === "" ? page : `${last}/${page}`;
}

/** Whether the client prefers HTML to JSON. Browsers do. Programs that accept every type do not. */
export function prefersHtml(c: Context): boolean {
  const supports = ["application/json", "text/html"];
  return accepts(c, { header: "Accept", supports, default: "application/json" }) === "text/html";
}
