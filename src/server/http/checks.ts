/** Checks each request before its route runs: host name, origin, port and API key. */
import type { MiddlewareHandler } from "hono";
import type { ApiKeys } from "../access/api-keys.ts";
import type { ServeConfig } from "../config.ts";
import { requireKey } from "./access.ts";
import { separatePorts } from "./admin.ts";
import { refuseForeignOrigins, refuseOtherHosts } from "./browser-guards.ts";

export interface CheckOptions extends Pick<ServeConfig, "allowedHosts" | "host" | "adminHost" | "adminPort"> {
  readonly corsOrigin?: readonly string[] | undefined;
  /** Undefined for a server without API keys. */
  readonly keys?: ApiKeys | undefined;
}

/** One Hono middleware for all checks: each further middleware costs every request some promises. */
export function checksOf(options: CheckOptions): MiddlewareHandler {
  const { corsOrigin, keys, adminPort } = options;
  const checks = [refuseOtherHosts(options), refuseForeignOrigins(corsOrigin)];
  if (adminPort !== undefined) checks.push(separatePorts);
  if (keys !== undefined) checks.push(requireKey(keys));
  return (c, next) => {
    for (const check of checks) check(c);
    return next();
  };
}
