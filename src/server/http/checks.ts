/** Checks each request before its route runs: host name, origin, port and API key. */
import type { MiddlewareHandler } from "hono";
import type { ApiKeys } from "../access/api-keys.ts";
import type { ServeConfig } from "../config.ts";
import { requireKey } from "./access.ts";
import { separatePorts } from "./admin.ts";
import { refuseForeignOrigins, refuseOtherHosts } from "./browser-guards.ts";

export interface CheckOptions {
  readonly config: ServeConfig;
  /** Undefined for a server without API keys. */
  readonly keys?: ApiKeys | undefined;
}

/** One Hono middleware for all checks: each further middleware costs every request some promises. */
export function checksOf({ config, keys }: CheckOptions): MiddlewareHandler {
  const checks = [refuseOtherHosts(config, keys), refuseForeignOrigins(config.corsOrigin)];
  if (config.adminPort !== undefined) checks.push(separatePorts);
  if (keys !== undefined) checks.push(requireKey(keys));
  return (c, next) => {
    for (const check of checks) check(c);
    return next();
  };
}
