/** The interactive documentation, served from the program itself. */
import { swaggerUI } from "@hono/swagger-ui";
import type { OpenAPIHono } from "@hono/zod-openapi";
import swaggerStyle from "swagger-ui-dist/swagger-ui.css" with { type: "file" };
import swaggerScript from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "file" };

const assets = {
  "swagger-ui-bundle.js": { path: swaggerScript, type: "text/javascript; charset=utf-8" },
  "swagger-ui.css": { path: swaggerStyle, type: "text/css; charset=utf-8" },
} as const;

export function addDocsRoutes(app: OpenAPIHono, title: string): void {
  // Relative addresses, so that the page also works behind a proxy that serves it under a prefix.
  app.get(
    "/docs",
    swaggerUI({
      title: `${title} · sconce`,
      url: "openapi.json",
      baseUrl: "docs/assets",
      displayRequestDuration: true,
      tryItOutEnabled: true,
      deepLinking: true,
    }),
  );
  for (const [name, { path, type }] of Object.entries(assets)) {
    app.get(
      `/docs/assets/swagger-ui-dist/${name}`,
      () =>
        new Response(Bun.file(path), { headers: { "Content-Type": type, "Cache-Control": "public, max-age=86400" } }),
    );
  }
}
