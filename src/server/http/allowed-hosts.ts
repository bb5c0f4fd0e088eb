/** Refuses requests to host names that the server does not have: a foreign page's name that resolves to this server (DNS rebinding). */
import { isIP } from "node:net";
import type { MiddlewareHandler } from "hono";
import { isLoopback } from "../../machine/network/loopback.ts";
import type { ServeConfig } from "../config.ts";
import { ProblemError } from "./problem.ts";
import { contextOf } from "./request-context.ts";

/** A page's host is such a name. Malformed hosts come from other clients. */
const name = /^[a-z0-9._-]+$/;

/**
 * IP addresses and loopback names are always allowed, since no foreign page can have them. Without --allowed-hosts a server on a
 * loopback address allows nothing else, and any other server allows all names.
 */
export function refuseOtherHosts({
  allowedHosts,
  host,
}: Pick<ServeConfig, "allowedHosts" | "host">): MiddlewareHandler {
  const names = allowedHosts ?? (isLoopback(host) || host === "::1" ? [] : ["*"]);
  return async (c, next) => {
    const asked = nameOf(c.req.header("Host") ?? "");
    const { path, isForwarded } = contextOf(c);
    const isAllowed =
      !name.test(asked) ||
      isForwarded ||
      path.startsWith("/health/") ||
      isAddress(asked) ||
      isLoopback(asked) ||
      isNamed(asked);
    if (!isAllowed) {
      throw new ProblemError({
        status: 403,
        code: "host_refused",
        detail: `requests to the host ${JSON.stringify(asked)} are refused here; --allowed-hosts ${asked} allows them`,
      });
    }
    await next();
  };

  function isNamed(asked: string): boolean {
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
