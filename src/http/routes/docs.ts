/** The interactive documentation, served from the program itself. */
import { swaggerUI } from "@hono/swagger-ui";
import type { OpenAPIHono } from "@hono/zod-openapi";
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

export function addDocsRoutes(app: OpenAPIHono, title: string): void {
  app.get("/docs", async (c, next) => {
    // The page's addresses are relative, so that it also works behind a proxy that serves it under a prefix: so is this one.
    if (/\/(?:\?|$)/.test(c.req.raw.url)) return c.body(null, 308, { Location: "../docs" });
    const page = swaggerUI({
      title: `${title} · sconce`,
      url: "openapi.json",
      baseUrl: "docs/assets",
      version: await assets.digest(),
      displayRequestDuration: true,
      tryItOutEnabled: true,
      deepLinking: true,
    });
    return page(c, next);
  });
  assets.addRoute(app);
  // Browsers ask for it unasked, and what is refused is counted.
  app.get("/favicon.ico", (c) =>
    c.body(favicon, 200, { "Content-Type": "image/svg+xml", "Cache-Control": "public, max-age=86400" }),
  );
}
