/** The guards of a front: checks that refuse a request before its route. */
import { isIP } from "node:net";
import { hostname } from "node:os";
import { isLoopback } from "../machine/network/loopback.ts";
import type { ApiKeys } from "./access/api-keys.ts";
import { requireKey } from "./access/require-key.ts";
import { INDEX, isAdminPath } from "./admin.ts";
import type { HttpOptions } from "./options.ts";
import { isForPage } from "./page/page.ts";
import { ProblemError } from "./problem.ts";
import { type Check, contextOf } from "./request.ts";
import { type Lifecycle, notReady } from "./routes/health.ts";

interface Guarded {
  readonly config: HttpOptions;
  readonly keys: ApiKeys | undefined;
  readonly lifecycle: Lifecycle;
}

/** All guards, in the order in which they see a request. */
export function guardsOf({ config, keys, lifecycle }: Guarded): Check[] {
  return [
    refuseOtherHosts(config, keys),
    refuseForeignOrigins(config.corsOrigin),
    ...(config.adminPort === undefined ? [] : [separatePorts]),
    ...(keys === undefined ? [] : [requireKey(keys)]),
    refuseUntilReady(lifecycle, config.api.includes("page")),
  ];
}

/**
 * Refuses foreign host names, except for health checks. After DNS rebinding, the host name of a foreign page resolves to this server, and the page
 * could read answers.
 *
 * Always allowed are IP addresses and loopback names, which no foreign page can have, and the names in --allowed-hosts. Without --allowed-hosts, a
 * server on a loopback address allows no other names. Any other server then refuses only names of the public DNS from browsers over plain HTTP, and
 * none if it has API keys.
 */
function refuseOtherHosts({ allowedHosts, host, adminPort }: HttpOptions, keys: ApiKeys | undefined): Check {
  const namesOf = (address: string) => allowedHosts ?? (isLoopback(address) || address === "::1" ? [] : undefined);
  const [publicNames, adminNames] = [namesOf(host), namesOf(adminPort?.host ?? host)];
  // Nearly all requests have the same Host header, so the last name is cached.
  let last = { header: "", name: "" };
  return (c) => {
    const header = c.req.raw.headers.get("host") ?? "";
    if (header !== last.header) last = { header, name: nameOf(header) };
    const { name } = last;
    const { path, isForwarded, isAdmin } = contextOf(c);
    const names = isAdmin ? adminNames : publicNames;
    const isAllowed =
      !isHostName(name) ||
      isForwarded ||
      path.startsWith("/health/") ||
      isAddress(name) ||
      isLoopback(name) ||
      (names === undefined
        ? keys !== undefined || isPrivateName(name) || !isPlainBrowser(c.req.raw)
        : isListed(name, names));
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

/** Whether the text is a valid host name. Only valid names need the check: browsers send no others. */
function isHostName(name: string): boolean {
  return /^[a-z0-9._-]+$/.test(name) || (name !== "" && URL.canParse(`http://${name}/`));
}

/**
 * Whether the public DNS cannot have the name: it has no dot, is reserved, or is the name of this machine. Appendix G of RFC 6762 lists most
 * suffixes.
 */
function isPrivateName(name: string): boolean {
  return !name.includes(".") || privateSuffix.test(name) || name === hostname().toLowerCase();
}

const privateSuffix = /\.(?:local|internal|test|home\.arpa|intranet|private|corp|home|lan|localdomain)$/;

/**
 * Whether a browser sent the request over plain HTTP, from a page of the same origin. Browsers send `Accept-Language`, `Origin` with POST, and over
 * plain HTTP no `Sec-Fetch-Mode`. No script of a page can change these headers. Over HTTPS, the browser has checked a certificate for the host name.
 */
function isPlainBrowser({ headers, url }: Request): boolean {
  const origin = headers.get("origin");
  const isSameOrigin = origin === null ? headers.has("accept-language") : hostOf(origin) === headers.get("host");
  return isSameOrigin && !headers.has("sec-fetch-mode") && !url.startsWith("https:");
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0;
}

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Refuses requests of pages of another origin that change something, such as POST. Browsers send forms to other origins without a CORS preflight.
 * @param allowed the origins of --cors-origin; `*` allows all
 */
function refuseForeignOrigins(allowed: readonly string[] = []): Check {
  return (c) => {
    if (safeMethods.has(c.req.method)) return;
    const { headers } = c.req.raw;
    const origin = headers.get("origin");
    if (!isCrossSite(headers, origin)) return;
    // --cors-origin applies to the public port only.
    const isAllowed = !contextOf(c).isAdmin && (allowed.includes("*") || allowed.includes(origin ?? ""));
    if (!isAllowed) {
      throw new ProblemError({
        code: "origin_refused",
        detail: `pages of ${origin ?? "another origin"} may not start or cancel work here; --cors-origin allows them`,
      });
    }
  };
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
const separatePorts: Check = (c) => {
  const { path, isAdmin } = contextOf(c);
  const isServed = isAdmin ? isAdminPath(path) || path === INDEX || path.startsWith("/health/") : !isAdminPath(path);
  if (isServed) return;
  const detail = `there is nothing at ${path}; ${isAdmin ? "the server's other port" : "the admin port"} may have it`;
  throw new ProblemError({ code: "not_found", detail });
};

/** Paths with an answer while the server starts: health checks and static files. */
const startingPath = /^\/(?:health\/\w+|v2\/health\/\w+|favicon\.ico|demo\/assets\/.*)$/;

/** Refuses requests until their model is ready, or the server if they name no model. The page itself waits for the model. */
function refuseUntilReady(lifecycle: Lifecycle, hasPage: boolean): Check {
  return (c) => {
    const { served, path } = contextOf(c);
    const { pending } = served ?? lifecycle;
    if (pending !== undefined && !startingPath.test(path) && !(hasPage && isForPage(c))) throw notReady(pending);
  };
}
