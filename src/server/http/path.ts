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
export function urlOf({ url }: Pick<Request, "url">): string {
  if (URL.canParse(url)) return url;
  const path = url.replace(/^https?:\/\/[^/]*/, "");
  // What a client names in its place may begin with anything.
  return `http://localhost${path.startsWith("/") ? "" : "/"}${path}`;
}
