/** GET /demo, the page on which people try the model. Its files are part of this program. */
import { z } from "@hono/zod-openapi";
import type { Context, Hono } from "hono";
import { html } from "hono/html";
import { parseAccept } from "hono/utils/accept";
import pageStyle from "#page/page.css" with { type: "file" };
import pageScript from "#page/page.js" with { type: "file" };
import { addAssets } from "../assets.ts";
import { modelOf, urlOf } from "../request.ts";
import type { Route } from "../route.ts";

const assets = {
  "page.js": { path: pageScript, type: "text/javascript; charset=utf-8" },
  "page.css": { path: pageStyle, type: "text/css; charset=utf-8" },
};

const headers = {
  // Images and media may come from any host, because inputs and outputs may be URLs.
  ...securityHeaders({ files: "'self' data: blob: http: https:" }),
  "Cache-Control": "no-cache",
};

/** Adds the redirect of browsers from GET / to the page, and the files of the page. */
export function addPage(app: Pick<Hono, "get">): void {
  app.get("/", (c, next) => {
    c.header("Vary", "Accept");
    return prefersHtml(c.req.raw.headers) ? Promise.resolve(c.redirect(demoBelow(c))) : next();
  });
  addAssets(app, "/demo", "/demo/assets", assets);
}

/**
 * GET /demo, the page of a model.
 * @param hasKeys whether the server has API keys. The page needs none, so it then does not show the name and the description of the model
 */
export function pageRoute(hasKeys: boolean): Route {
  return {
    method: "get",
    path: "/demo",
    answer: (c) => {
      const model = modelOf(c);
      // Redirects /demo/ to /demo, because the page's URLs are relative to /demo.
      if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../demo" });
      const { name, description } = hasKeys ? { name: "sconce", description: "" } : model;
      const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${description}">
<title>${name}</title>
<link rel="icon" href="favicon.ico">
<link rel="stylesheet" href="demo/assets/page.css">
<script type="module" src="demo/assets/page.js"></script>
</head>
<body><noscript>This page needs JavaScript; <a href="docs">the documentation of the API</a> says how programs call ${name}.</noscript></body>
</html>
`;
      return c.html(page, 200, headers);
    },
    describe: () => ({
      id: "getPage",
      tag: "Model",
      summary: "The page on which people try the model",
      description: "The page needs no API key, and asks for one.",
      answers: { 200: { description: "The page", content: { "text/html": { schema: z.string() } } } },
      fails: [503],
    }),
  };
}

interface Sources {
  readonly scripts?: string;
  readonly styles?: string;
  /** Sources of images and media. */
  readonly files: string;
}

/** Headers of answers with HTML: its scripts and styles come from this server only, or from the given sources. */
export function securityHeaders({ scripts = "'self'", styles = "'self'", files }: Sources) {
  const policy = [
    "default-src 'none'",
    `script-src ${scripts}`,
    `style-src ${styles}`,
    "connect-src 'self'",
    `img-src ${files}`,
    `media-src ${files}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ].join("; ");
  return { "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff" };
}

/** The URL of the page, relative to the requested path, so that it works behind a proxy with a path prefix. */
function demoBelow(c: Context): string {
  const [, last = ""] = /([^/]*)$/.exec(new URL(urlOf(c.req.raw)).pathname) ?? [];
  return last === "" ? "demo" : `${last}/demo`;
}

/** Media types in `Accept` that include HTML or JSON, except the one of programs that accept every type. */
const htmlOrJson = /^(?:text\/(?:html|\*)|application\/(?:json|\*))$/i;

/** Whether the client prefers HTML to JSON. Browsers do. Programs that accept every type do not. */
export function prefersHtml(headers: Headers): boolean {
  // The types are sorted by descending preference.
  const chosen = parseAccept(headers.get("accept") ?? "").find(({ type, q }) => q > 0 && htmlOrJson.test(type));
  return chosen !== undefined && /^text/i.test(chosen.type);
}
