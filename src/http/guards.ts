/** The guards of a front: checks that refuse a request before the router sees it. */
import { isAddress, isHostName, isLoopback, isPrivateName } from "../machine/network/host-name.ts";
import type { Permission } from "./access/key-file.ts";
import { changesServer, INDEX, isAdminPath } from "./admin.ts";
import type { HttpOptions } from "./options.ts";
import { prefersHtml } from "./page/page.ts";
import { ProblemError } from "./problem.ts";
import type { RequestContext } from "./request.ts";
import { type Lifecycle, notReady } from "./routes/health.ts";

interface Guarded {
  readonly config: HttpOptions;
  readonly keys: unknown;
  readonly lifecycle: Lifecycle;
}

/** Returns a function that calls all guards. @throws ProblemError to refuse a request */
export function guardOf({ config, keys, lifecycle }: Guarded): (context: RequestContext) => void {
  const hasKeys = keys !== undefined;
  const refuseOtherHosts = hostGuard(config, hasKeys);
  return (context) => {
    refuseOtherHosts(context);
    refuseForeignOrigin(context, config.corsOrigin);
    if (config.adminPort !== undefined) refuseOtherPort(context);
    if (hasKeys) requireKey(context);
    refuseUntilReady(context, lifecycle);
  };
}

/**
 * Refuses foreign host names, except for health checks. After DNS rebinding, the host name of a foreign page resolves to this server, and the page
 * could read answers.
 *
 * Always allowed are IP addresses and loopback names, which no foreign page can have, and the names in --allowed-hosts. Without --allowed-hosts, a
 * server on a loopback address allows no other names. Any other server then refuses only names of the public DNS from browsers over plain HTTP, and
 * none if it has API keys.
 */
function hostGuard(
  { allowedHosts, host, adminPort }: HttpOptions,
  hasKeys: boolean,
): (context: RequestContext) => void {
  const namesOf = (address: string) => allowedHosts ?? (isLoopback(address) || address === "::1" ? [] : undefined);
  const [publicNames, adminNames] = [namesOf(host), namesOf(adminPort?.host ?? host)];
  // Nearly all requests have the same Host header, so the last one is cached.
  let last = { header: "", name: "", isHarmless: true };
  return ({ request, path, isForwarded, isAdmin }) => {
    const header = request.headers.get("host") ?? "";
    if (header !== last.header) {
      const name = nameOf(header);
      // Only valid names need the check: browsers send no others.
      last = { header, name, isHarmless: !isHostName(name) || isAddress(name) || isLoopback(name) };
    }
    const { name, isHarmless } = last;
    const names = isAdmin ? adminNames : publicNames;
    const isAllowed =
      isHarmless ||
      isForwarded ||
      path.startsWith("/health/") ||
      (names === undefined ? hasKeys || isPrivateName(name) || !isPlainBrowser(request) : isListed(name, names));
    if (!isAllowed) {
      const refused =
        names === undefined
          ? `a browser may use the host ${JSON.stringify(name)} over HTTPS only, since any page can give its name this server's address`
          : `requests to the host ${JSON.stringify(name)} are refused here`;
      throw new ProblemError({
        code: "host_refused",
        detail: `${refused}; --allowed-hosts ${name} allows them`,
      });
    }
  };

  function isListed(name: string, names: readonly string[]): boolean {
    return names.some((each) => each === name || (each.startsWith("*.") && name.endsWith(each.slice(1))));
  }
}

/** The name in a Host header, without the port, in lower case. */
function nameOf(header: string): string {
  return header.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

/**
 * Whether a browser sent the request over plain HTTP, from a page of the same origin. Browsers send `Accept-Language`, `Origin` with POST, and over
 * plain HTTP no `Sec-Fetch-Mode`. No script of a page can change these headers. Over HTTPS, the browser has checked a certificate for the host name.
 */
function isPlainBrowser({ headers, url }: Request): boolean {
  const origin = headers.get("origin");
  const isSameOrigin = origin === null ? headers.has("accept-language") : hostOf(origin) === headers.get("host");
  return isSameOrigin && !headers.has("sec-fetch-mode") && !url.startsWith("https:");
}

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Refuses requests of pages of another origin that change something, such as POST. Browsers send forms to other origins without a CORS preflight.
 * @param allowed the origins of --cors-origin; `*` allows all
 */
function refuseForeignOrigin({ request, isAdmin }: RequestContext, allowed: readonly string[] | undefined): void {
  const { method, headers } = request;
  if (safeMethods.has(method)) return;
  const origin = headers.get("origin");
  if (!isCrossSite(headers, origin)) return;
  // --cors-origin applies to the public port only.
  if (!isAdmin && (allowed?.includes("*") || allowed?.includes(origin ?? ""))) return;
  throw new ProblemError({
    code: "origin_refused",
    detail: `pages of ${origin ?? "another origin"} may not start or cancel work here; --cors-origin allows them`,
  });
}

/**
 * Whether a page of another origin sent the request. Browsers send Sec-Fetch-Site to https URLs and localhost, and else Origin. Other clients send
 * neither header.
 */
function isCrossSite(headers: Headers, origin: string | null): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site !== "same-origin" && site !== "none";
  return origin !== null && hostOf(origin) !== headers.get("host");
}

/** The host of a page's origin; undefined for the origins of apps, such as tauri://localhost, whose host is no server. */
function hostOf(origin: string): string | undefined {
  return /^https?:/.test(origin) ? URL.parse(origin)?.host : undefined;
}

/** Answers 404 for public paths on the admin port, and for admin paths on the public port. Both ports have health checks and the index of models. */
function refuseOtherPort({ path, isAdmin }: RequestContext): void {
  const isServed = isAdmin ? isAdminPath(path) || path === INDEX || path.startsWith("/health/") : !isAdminPath(path);
  if (isServed) return;
  const detail = `there is nothing at ${path}; ${isAdmin ? "the server's other port" : "the admin port"} may have it`;
  throw new ProblemError({ code: "not_found", detail });
}

/**
 * Paths that need no API key: health probes, the icon, the documentation page, static files, and the well-known paths
 * of other standards (RFC 8615), which do not exist here. They reveal nothing about the model.
 */
const openPath =
  /^\/(?:health\/\w+|v2\/health\/\w+|favicon\.ico|docs|docs\/assets\/.*|demo\/assets\/.*|\.well-known\/.*)$/;

/** Refuses requests without a valid API key, except to the open paths and the page, and requests that their key does not permit. */
function requireKey(context: RequestContext): void {
  const { key, path, request } = context;
  if (key === undefined) {
    if (openPath.test(path) || isForPage(context)) return;
    throw unauthorized(request.headers);
  }
  const permission = permissionFor(request.method, path);
  if (key.may(permission)) return;
  throw new ProblemError({
    code: "key_refused",
    detail: `the API key ${key.name} does not permit ${permission} (\`only\` in the file of the keys)`,
  });
}

function permissionFor(method: string, path: string): Permission {
  if (path === "/metrics") return "metrics";
  if (changesServer(path)) return "admin";
  if (path === INDEX) return "read";
  return safeMethods.has(method) ? "read" : "predictions";
}

function unauthorized(headers: Headers): ProblemError {
  const hasKey = headers.has("authorization") || headers.has("x-api-key");
  return new ProblemError({
    code: hasKey ? "key_unknown" : "key_required",
    detail: hasKey ? "the API key is unknown" : "an API key is required: Authorization: Bearer KEY, or X-API-Key: KEY",
    headers: { "WWW-Authenticate": hasKey ? 'Bearer realm="sconce", error="invalid_token"' : 'Bearer realm="sconce"' },
  });
}

/** Paths with an answer while the server starts. */
const startingPath = /^(?:\/v2)?\/health\/\w+$/;

/** Refuses requests until their model is ready, or the server if they name no model. */
function refuseUntilReady({ served, path }: RequestContext, lifecycle: Lifecycle): void {
  const { pending } = served ?? lifecycle;
  if (pending !== undefined && !startingPath.test(path)) throw notReady(pending);
}

/** Whether a browser asks for the page of a model, or for the redirect to it. The routes also choose HTML or JSON by `prefersHtml`. */
function isForPage({ path, request: { method, headers } }: RequestContext): boolean {
  return (path === "/" || path === "/demo") && (method === "GET" || method === "HEAD") && prefersHtml(headers);
}
