/** Protects the server from web pages of other sites. */
import { isIP } from "node:net";
import type { MiddlewareHandler } from "hono";
import { isLoopback } from "../../machine/network/loopback.ts";
import type { ServeConfig } from "../config.ts";
import { ProblemError } from "./problem.ts";
import { contextOf } from "./request.ts";

/** A page's host name matches this pattern. Other clients may send malformed names. */
const hostName = /^[a-z0-9._-]+$/;

/**
 * Refuses foreign host names. Without this check a foreign page can read the server: its host name resolves to the server's address (DNS
 * rebinding).
 *
 * IP addresses and loopback names are always allowed, since no foreign page can have them. Without --allowed-hosts, a server on a
 * loopback address allows nothing else, and any other server allows all names.
 */
export function refuseOtherHosts({
  allowedHosts,
  host,
  adminHost,
}: Pick<ServeConfig, "allowedHosts" | "host" | "adminHost">): MiddlewareHandler {
  const namesOf = (address: string) => allowedHosts ?? (isLoopback(address) || address === "::1" ? [] : ["*"]);
  const [publicNames, adminNames] = [namesOf(host), namesOf(adminHost)];
  return async (c, next) => {
    const asked = nameOf(c.req.header("Host") ?? "");
    const { path, isForwarded, isAdmin } = contextOf(c);
    const isAllowed =
      !hostName.test(asked) ||
      isForwarded ||
      path.startsWith("/health/") ||
      isAddress(asked) ||
      isLoopback(asked) ||
      isListed(asked, isAdmin ? adminNames : publicNames);
    if (!isAllowed) {
      throw new ProblemError({
        status: 403,
        code: "host_refused",
        detail: `requests to the host ${JSON.stringify(asked)} are refused here; --allowed-hosts ${asked} allows them`,
      });
    }
    await next();
  };

  function isListed(asked: string, names: readonly string[]): boolean {
    return names.some(
      (each) => each === "*" || each === asked || (each.startsWith("*.") && asked.endsWith(each.slice(1))),
    );
  }
}

/** The name in a Host header, without the port. */
function nameOf(header: string): string {
  return header.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0;
}

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Refuses requests that change something and come from a page of another origin. Browsers send forms to other origins without asking
 * for permission.
 * @param allowed the origins of --cors-origin; `*` allows all
 */
export function refuseForeignOrigins(allowed: readonly string[] = []): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header("Origin");
    const isForeign =
      !safeMethods.has(c.req.method) && isCrossSite(c.req.header("Sec-Fetch-Site"), origin, c.req.header("Host"));
    // --cors-origin is for the public port.
    const isAllowed = !contextOf(c).isAdmin && (allowed.includes("*") || allowed.includes(origin ?? ""));
    if (isForeign && !isAllowed) {
      throw new ProblemError({
        status: 403,
        code: "origin_refused",
        detail: `pages of ${origin ?? "another origin"} may not start or cancel work here; --cors-origin allows them`,
      });
    }
    await next();
  };
}

/** Browsers send Sec-Fetch-Site to https and localhost, and Origin elsewhere. Other clients send neither. */
function isCrossSite(site: string | undefined, origin: string | undefined, host: string | undefined): boolean {
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).host !== host;
}
