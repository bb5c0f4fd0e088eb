/** Where a request goes: its URL, and its path for routing. */
import { getPathNoStrict } from "hono/utils/url";
import { RequestContext } from "./request-context.ts";

/** Without a slash at its end. */
export function pathOf(request: Request, options?: { readonly env?: unknown }): string {
  const url = urlOf(request);
  const path = getPathNoStrict(url === request.url ? request : new Request(url));
  if (options?.env instanceof RequestContext) options.env.path = path;
  return path;
}

/**
 * The URL of a request, absolute. HTTP/1.0 clients, health checks among them, may name no host, and others one that is malformed: then Bun's URL is
 * the path alone, or cannot be parsed.
 */
export function urlOf({ url }: Request): string {
  return URL.canParse(url) ? url : `http://localhost${url.replace(/^https?:\/\/[^/]*/, "")}`;
}
