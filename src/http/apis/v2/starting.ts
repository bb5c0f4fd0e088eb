/** Answers requests of the Open Inference Protocol while the server starts: with 503, except for /v2/health/live. */
import type { Hono } from "hono";

export function addStartingV2(app: Hono, detail: string): void {
  app.get("/v2/health/live", (c) => c.json({ live: true }));
  app.get("/v2/health/ready", (c) => c.json({ ready: false }, 503, { "Retry-After": "1" }));
  app.all("/v2/*", (c) =>
    c.body(JSON.stringify({ error: detail }), 503, { "Content-Type": "application/json", "Retry-After": "1" }),
  );
}
