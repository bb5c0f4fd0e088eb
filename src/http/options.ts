/** The options of `serve` that listeners, routes and checks of requests read. */
import type { ListenAddress } from "../base/option.ts";

export const apiNames = ["v2", "openai", "mcp", "page", "docs"] as const;
/** A part of the server beside its own API: an API of other servers, the page of a model, or the documentation. */
export type ApiName = (typeof apiNames)[number];

export interface HttpOptions {
  /** Path before all routes; empty without one. Some proxies remove it from requests, and others keep it. */
  readonly basePath: string;
  readonly host: string;
  readonly allowedHosts: readonly string[] | undefined;
  readonly corsOrigin: readonly string[] | undefined;
  readonly api: readonly ApiName[];
  readonly adminPort: ListenAddress | undefined;
  readonly maxBodyBytes: number;
  readonly webhookSecret: readonly unknown[];
}
