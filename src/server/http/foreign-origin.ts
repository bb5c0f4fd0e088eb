/** Refuses requests by which a page of another origin would start or cancel work: a form needs no permission of the browser. */
import type { MiddlewareHandler } from "hono";
import { ProblemError } from "./problem.ts";

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/** @param allowed the origins of --cors-origin; `*` allows all */
export function refuseForeignOrigins(allowed: readonly string[] = []): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header("Origin");
    const isForeign =
      !safeMethods.has(c.req.method) &&
      comesFromElsewhere(c.req.header("Sec-Fetch-Site"), origin, c.req.header("Host"));
    if (isForeign && !allowed.includes("*") && !allowed.includes(origin ?? "")) {
      throw new ProblemError({
        status: 403,
        code: "origin_refused",
        detail: `pages of ${origin ?? "another origin"} may not start or cancel work here; --cors-origin allows them`,
      });
    }
    await next();
  };
}

/** Browsers send Sec-Fetch-Site to trustworthy addresses. Origin stands in for it elsewhere. Other clients send neither. */
function comesFromElsewhere(site: string | undefined, origin: string | undefined, host: string | undefined): boolean {
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).host !== host;
}
