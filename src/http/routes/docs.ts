/** The interactive documentation, served from the program itself. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { html, raw } from "hono/html";
import swaggerStyle from "#swagger-ui/swagger-ui.css" with { type: "file" };
import swaggerScript from "#swagger-ui/swagger-ui-bundle.js" with { type: "file" };
import { ImmutableAssets } from "../immutable-assets.ts";

const assets = new ImmutableAssets({
  page: "/docs",
  label: "swagger-ui-dist",
  files: {
    "swagger-ui-bundle.js": { path: swaggerScript, type: "text/javascript; charset=utf-8" },
    "swagger-ui.css": { path: swaggerStyle, type: "text/css; charset=utf-8" },
  },
});

/** A torch in its bracket. */
const favicon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#e25822" d="M8 0c3 3 3 4 3 5a3 3 0 0 1-6 0c0-1 1-2 3-5z"/><path fill="#555" d="M5 8h6l-2 8H7z"/></svg>`;

/** Addresses are relative, so that the page also works behind a proxy that serves it under a prefix. */
const script = `
const isDark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = () => document.documentElement.classList.toggle("dark-mode", isDark.matches);
isDark.addEventListener("change", setTheme);
setTheme();
SwaggerUIBundle({ dom_id: "#swagger-ui", url: "openapi.json", displayRequestDuration: true, tryItOutEnabled: true, deepLinking: true });
`;

/** Swagger UI styles some of its elements by attributes, and its icons are data URIs. */
const policy = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${new Bun.CryptoHasher("sha256").update(script).digest("base64")}'`,
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "media-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join("; ");

export function addDocsRoutes(app: OpenAPIHono, title: string): void {
  app.get("/docs", async (c) => {
    if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../docs" });
    const folder = `docs/assets/${await assets.folder()}`;
    c.header("Content-Security-Policy", policy);
    c.header("Referrer-Policy", "no-referrer");
    c.header("X-Content-Type-Options", "nosniff");
    return c.html(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · sconce</title>
<link rel="stylesheet" href="${folder}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${folder}/swagger-ui-bundle.js"></script>
<script>${raw(script)}</script>
</body>
</html>
`);
  });
  assets.addRoute(app);
  // Browsers ask for it unasked, and what is refused is counted.
  app.get("/favicon.ico", (c) =>
    c.body(favicon, 200, { "Content-Type": "image/svg+xml", "Cache-Control": "public, max-age=86400" }),
  );
}
