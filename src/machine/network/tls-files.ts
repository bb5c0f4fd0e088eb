/** Reads and tries the files of a TLS server: its certificate, its key, and the certificate authorities of its clients. */
import { readFileSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";

export interface TlsPaths {
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  readonly tlsClientCa?: string | undefined;
}

/**
 * Reads the TLS files, and tries a server with them before the port of the clients opens.
 * @returns the `tls` option of `Bun.serve`; undefined for a server without TLS
 * @throws SconceError `usage` if only one of --tls-cert and --tls-key is given, or for unusable files
 */
export function tlsOf({ tlsCert, tlsKey, tlsClientCa }: TlsPaths): Bun.TLSOptions | undefined {
  const names = [tlsCert, tlsKey, tlsClientCa].filter((path) => path !== undefined);
  if (names.length === 0) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new SconceError("usage", "TLS needs both --tls-cert and --tls-key");
  }
  try {
    const own = { cert: readFileSync(tlsCert, "utf8"), key: readFileSync(tlsKey, "utf8") };
    const ofClients = tlsClientCa !== undefined && {
      ca: readFileSync(tlsClientCa, "utf8"),
      requestCert: true,
      rejectUnauthorized: true,
    };
    const tls = { ...own, ...ofClients };
    void Bun.serve({ port: 0, hostname: "127.0.0.1", tls, fetch: () => new Response() }).stop(true);
    return tls;
  } catch (cause) {
    throw new SconceError("usage", `TLS: ${names.join(", ")} cannot be used together: ${messageOf(cause)}`, { cause });
  }
}
