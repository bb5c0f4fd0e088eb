/**
 * GET /demo, the page on which people try the model, and the page that lists the models of a server. Both use files that are part of this program.
 */
import { z } from "@hono/zod-openapi";
import type { Context, Hono } from "hono";
import { html } from "hono/html";
import { parseAccept } from "hono/utils/accept";
import pageStyle from "#page/page.css" with { type: "file" };
import pageScript from "#page/page.js" with { type: "file" };
import { ImmutableAssets } from "../assets.ts";
import { text } from "../openapi/operation.ts";
import { contextOf, modelOf, urlOf } from "../request.ts";
import type { Route } from "../route.ts";
import { type Lifecycle, notReady } from "../routes/health.ts";
import type { ServedName, ServedNames } from "../served-model.ts";

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

export interface PageOptions {
  readonly names: ServedNames;
  /** Whether the server has API keys. The page needs none, so it then does not show the name and the description of the model. */
  readonly hasKeys: boolean;
  readonly lifecycle: Lifecycle;
}

/** Adds the redirect of browsers from GET / to the page, and the files of the page. */
export function addPage(app: Pick<Hono, "get">, { names, hasKeys }: Pick<PageOptions, "names" | "hasKeys">): void {
  app.get("/", (c, next) => {
    c.header("Vary", "Accept");
    // The names of the models are on a page that needs a key.
    const hasList = contextOf(c).modelPath === "" && names.list.length > 1 && !hasKeys;
    return prefersHtml(c.req.raw.headers) ? Promise.resolve(c.redirect(below(c, hasList ? "models" : "demo"))) : next();
  });
  assets.addRoute(app);
}

/** GET /demo, the page of a model. Until the server is ready, the page has status 503, and waits. */
export function pageRoute({ hasKeys, lifecycle }: Pick<PageOptions, "hasKeys" | "lifecycle">): Route {
  return {
    method: "get",
    path: "/demo",
    answer: async (c) => {
      const { served } = contextOf(c);
      const { pending } = served ?? lifecycle;
      if (pending !== undefined && !prefersHtml(c.req.raw.headers)) throw notReady(pending);
      const description = pending === undefined ? modelOf(c).description : "";
      // Redirects /demo/ to /demo, because the page's URLs are relative to /demo.
      if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../demo" });
      const folder = `demo/assets/${await assets.folder()}`;
      if (pending !== undefined) c.header("Retry-After", "1");
      const name = (hasKeys ? undefined : served?.name) ?? "sconce";
      const page = html`${start}
<meta name="description" content="${hasKeys ? "" : description}">
<title>${name}</title>
<link rel="icon" href="favicon.ico">
<link rel="stylesheet" href="${folder}/page.css">
<script type="module" src="${folder}/page.js"></script>
</head>
<body><noscript>This page needs JavaScript; <a href="docs">the documentation of the API</a> says how programs call ${name}.</noscript></body>
</html>
`;
      return c.html(page, pending === undefined ? 200 : 503, headers);
    },
    describe: () => ({
      id: "getPage",
      tag: "Model",
      summary: "The page on which people try the model",
      description: "Browsers (`Accept: text/html`) get it without an API key. The page asks for the key.",
      answers: {
        200: {
          description: "The page",
          headers: {
            "Cache-Control": z.literal("no-cache"),
            "Content-Security-Policy": text("Scripts and styles come from this server only"),
            "Referrer-Policy": z.literal("no-referrer"),
            "X-Content-Type-Options": z.literal("nosniff"),
          },
          content: { "text/html": { schema: z.string() } },
        },
      },
      fails: [503],
    }),
  };
}

/** The page that lists the models of a server. It has the style of the models' pages, and no script. */
export async function listPage(c: Context, models: readonly ServedName[]): Promise<Response> {
  // "./": a browser takes `digits:v1/demo` for a URL with the scheme `digits`.
  const [folder, root] = new URL(urlOf(c.req.raw)).pathname.endsWith("/") ? ["./", "../"] : ["models/", ""];
  const kinds = { ready: "good", loading: "busy", draining: "busy", unloaded: "", failed: "bad" } as const;
  const items = models.map(
    ({ name, model, state, reason }) => html`<li><article><a href="${folder}${name}/demo">
<h2>${name}</h2></a><p>${descriptionOf(model)}</p><span class="status ${kinds[state]}">${state}${reason === undefined ? "" : `: ${reason}`}</span>
</article></li>`,
  );
  const page = html`${start}
<title>Models</title>
<link rel="icon" href="${root}favicon.ico">
<link rel="stylesheet" href="${root}demo/assets/${await assets.folder()}/page.css">
</head>
<body><h1>Models</h1><main><ul class="grid">${items}</ul></main></body>
</html>
`;
  return c.html(page, 200, headers);
}

export function descriptionOf(model: ServedName["model"]): string {
  return "description" in model ? model.description : "";
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

/** Media types in `Accept` that include HTML or JSON, except the one of programs that accept every type. */
const htmlOrJson = /^(?:text\/(?:html|\*)|application\/(?:json|\*))$/i;

/** Whether the client prefers HTML to JSON. Browsers do. Programs that accept every type do not. */
export function prefersHtml(headers: Headers): boolean {
  // The types are sorted by descending preference.
  const chosen = parseAccept(headers.get("accept") ?? "").find(({ type, q }) => q > 0 && htmlOrJson.test(type));
  return chosen !== undefined && /^text/i.test(chosen.type);
}
