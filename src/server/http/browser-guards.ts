/** Protects the server from web pages of other sites. */
import { isIP } from "node:net";
import { hostname } from "node:os";
import { isLoopback } from "../../machine/network/loopback.ts";
import type { ApiKeys } from "../access/api-keys.ts";
import type { ServeConfig } from "../config.ts";
import { ProblemError } from "./problem.ts";
import { type Check, contextOf } from "./request.ts";

/**
 * Refuses foreign host names. Without this check a foreign page can read the server: its host name resolves to the server's address (DNS
 * rebinding).
 *
 * IP addresses and loopback names are always allowed, since no foreign page can have them. Without --allowed-hosts, a server on a
 * loopback address allows nothing else. Any other server without API keys refuses pages that may be foreign: a browser over plain
 * HTTP, and a name of the public DNS.
 */
export function refuseOtherHosts({
  allowedHosts,
  host,
  adminHost,
  keys,
}: Pick<ServeConfig, "allowedHosts" | "host" | "adminHost"> & {
  readonly keys?: ApiKeys | undefined;
}): Check {
  const namesOf = (address: string) => allowedHosts ?? (isLoopback(address) || address === "::1" ? [] : undefined);
  const [publicNames, adminNames] = [namesOf(host), namesOf(adminHost)];
  // Nearly all requests have the same header.
  let last = { header: "", name: "" };
  return (c) => {
    const header = c.req.raw.headers.get("host") ?? "";
    if (header !== last.header) last = { header, name: nameOf(header) };
    const asked = last.name;
    const { path, isForwarded, isAdmin } = contextOf(c);
    const names = isAdmin ? adminNames : publicNames;
    const isAllowed =
      !isHostName(asked) ||
      isForwarded ||
      path.startsWith("/health/") ||
      isAddress(asked) ||
      isLoopback(asked) ||
      (names === undefined
        ? keys !== undefined || isPrivateName(asked) || !isPlainBrowser(c.req.raw)
        : isListed(asked, names));
    if (!isAllowed) {
      const refused =
        names === undefined
          ? `a browser may use the host ${JSON.stringify(asked)} over HTTPS only, since any page can give its name this server's address`
          : `requests to the host ${JSON.stringify(asked)} are refused here`;
      throw new ProblemError({
        status: 403,
        code: "host_refused",
        detail: `${refused}; --allowed-hosts ${asked} allows them`,
      });
    }
  };

  function isListed(asked: string, names: readonly string[]): boolean {
    return names.some((each) => each === asked || (each.startsWith("*.") && asked.endsWith(each.slice(1))));
  }
}

/** The name in a Host header, without the port. */
function nameOf(header: string): string {
  return header.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

/** Whether a browser may have sent the name. Other clients may send malformed names. */
function isHostName(name: string): boolean {
  return /^[a-z0-9._-]+$/.test(name) || (name !== "" && URL.canParse(`http://${name}/`));
}

/** Names that the public DNS does not have: without a dot, reserved, or of this machine. Appendix G of RFC 6762 has most of them. */
function isPrivateName(name: string): boolean {
  return !name.includes(".") || privateSuffix.test(name) || name === hostname().toLowerCase();
}

const privateSuffix = /\.(?:local|internal|test|home\.arpa|intranet|private|corp|home|lan|localdomain)$/;

/**
 * Whether a browser asks over plain HTTP: it sends `Accept-Language`, `Origin` with POST, and no `Sec-Fetch-Mode`. No script of a page can remove
 * the first two or add the third. Over HTTPS, the browser has checked a certificate for the name.
 */
function isPlainBrowser({ headers, url }: Request): boolean {
  const origin = headers.get("origin");
  // Pages of other origins are for --cors-origin.
  const isOwn = origin === null ? headers.has("accept-language") : hostOf(origin) === headers.get("host");
  return isOwn && !headers.has("sec-fetch-mode") && !url.startsWith("https:");
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0;
}

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Refuses requests that change something and come from a page of another origin. Browsers send forms to other origins without asking
 * for permission.
 * @param allowed the origins of --cors-origin; `*` allows all
 */
export function refuseForeignOrigins(allowed: readonly string[] = []): Check {
  return (c) => {
    if (safeMethods.has(c.req.method)) return;
    const { headers } = c.req.raw;
    const origin = headers.get("origin");
    if (!isCrossSite(headers, origin)) return;
    // --cors-origin is for the public port.
    const isAllowed = !contextOf(c).isAdmin && (allowed.includes("*") || allowed.includes(origin ?? ""));
    if (!isAllowed) {
      throw new ProblemError({
        status: 403,
        code: "origin_refused",
        detail: `pages of ${origin ?? "another origin"} may not start or cancel work here; --cors-origin allows them`,
      });
    }
  };
}

/** Browsers send Sec-Fetch-Site to https and localhost, and Origin elsewhere. Other clients send neither. */
function isCrossSite(headers: Headers, origin: string | null): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site !== "same-origin" && site !== "none";
  return origin !== null && hostOf(origin) !== headers.get("host");
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
