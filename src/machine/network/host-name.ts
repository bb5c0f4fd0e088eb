/** Kinds of host names: loopback names, IP addresses, and names that the public DNS cannot have. */
import { isIP } from "node:net";
import { hostname } from "node:os";

/** Whether a host (with or without a port) is a loopback name or address. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || name === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(name);
}

/** Whether the host of a URL is an IP address. */
export function isAddress(host: string): boolean {
  return isIP(host.replace(/^\[(.*)\]$/, "$1")) !== 0;
}

/** Whether the text is a valid host name. */
export function isHostName(name: string): boolean {
  return /^[a-z0-9._-]+$/.test(name) || (name !== "" && URL.canParse(`http://${name}/`));
}

const privateSuffix = /\.(?:local|internal|test|home\.arpa|intranet|private|corp|home|lan|localdomain)$/;

/**
 * Whether the public DNS cannot have the name: it has no dot, is reserved, or is the name of this machine. Appendix G of RFC 6762 lists most
 * suffixes.
 */
export function isPrivateName(name: string): boolean {
  return !name.includes(".") || privateSuffix.test(name) || name === hostname().toLowerCase();
}
