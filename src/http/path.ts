/** The path of a request, for routing. */
import { getPathNoStrict } from "hono/utils/url";
import { RequestContext } from "./request-context.ts";

/** Without a slash at its end. HTTP/1.0 clients, health checks among them, may name no host: the URL is then the path alone. */
export function pathOf(request: Request, options?: { readonly env?: unknown }): string {
  const path = getPathNoStrict(request.url.startsWith("/") ? new Request(`http://localhost${request.url}`) : request);
  if (options?.env instanceof RequestContext) options.env.path = path;
  return path;
}
