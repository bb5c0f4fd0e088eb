/** Refuses requests without a valid API key, except to some open paths, and requests that their key does not permit. */
import type { Context } from "hono";
import { changesServer, INDEX } from "../admin.ts";
import { isForPage } from "../page/page.ts";
import { ProblemError } from "../problem.ts";
import { type Check, contextOf } from "../request.ts";
import type { ApiKeys } from "./api-keys.ts";
import type { Permission } from "./key-file.ts";

/**
 * Paths that need no API key: health probes, the icon, the documentation page, static files, and the well-known paths
 * of other standards (RFC 8615), which do not exist here. They reveal nothing about the model.
 */
const openPath =
  /^\/(?:health\/\w+|v2\/health\/\w+|favicon\.ico|docs|docs\/assets\/.*|demo\/assets\/.*|\.well-known\/.*)$/;

export function requireKey(keys: ApiKeys): Check {
  return (c) => {
    const { raw } = c.req;
    const context = contextOf(c);
    context.key ??= keys.find(raw.headers);
    const { key } = context;
    if (key === undefined && !isOpen(c, context.path)) throw unauthorized(raw.headers);
    const permission = permissionFor(c.req.method, context.path);
    if (key !== undefined && !key.may(permission)) {
      throw new ProblemError({
        code: "key_refused",
        detail: `the API key ${key.name} does not permit ${permission} (\`only\` in the file of the keys)`,
      });
    }
  };
}

/**
 * Whether a request needs no API key. Browsers need none for GET / (a redirect) and GET /demo (an empty page). Other clients get JSON about the model
 * at these paths.
 */
function isOpen(c: Context, path: string): boolean {
  // The routes choose HTML or JSON by prefersHtml(), too, so a request for JSON always needs a key.
  return openPath.test(path) || isForPage(c);
}

function permissionFor(method: string, path: string): Permission {
  if (path === "/metrics") return "metrics";
  if (changesServer(path)) return "admin";
  if (path === INDEX) return "read";
  return ["GET", "HEAD", "OPTIONS"].includes(method) ? "read" : "predictions";
}

function unauthorized(headers: Headers): ProblemError {
  const hasKey = headers.has("authorization") || headers.has("x-api-key");
  const detail = hasKey
    ? "the API key is unknown"
    : "an API key is required: Authorization: Bearer KEY, or X-API-Key: KEY";
  const challenge = hasKey ? 'Bearer realm="sconce", error="invalid_token"' : 'Bearer realm="sconce"';
  return new ProblemError({
    code: hasKey ? "key_unknown" : "key_required",
    detail,
    headers: { "WWW-Authenticate": challenge },
  });
}
