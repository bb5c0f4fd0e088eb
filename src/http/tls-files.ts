/** Reads and tries the files of a TLS server: its certificate, its key, and the certificate authorities of its clients. */
import { readFileSync } from "node:fs";
import { messageOf, SconceError } from "../base/errors.ts";
import { fileStamp } from "../machine/files/file-stamp.ts";
import type { TlsPaths } from "./options.ts";

type CheckedPaths = TlsPaths & { readonly tlsCert: string; readonly tlsKey: string };

export class TlsFiles {
  readonly #paths: CheckedPaths;
  #stamps: string;
  #content: Bun.TLSOptions;

  private constructor(paths: CheckedPaths) {
    this.#paths = paths;
    this.#stamps = this.#stampsNow();
    this.#content = usableContent(paths);
  }

  /**
   * Opens the TLS files of the options.
   * @returns undefined for a server without TLS
   * @throws SconceError `usage` if only one of --tls-cert and --tls-key is given, or for unusable files
   */
  static of({ tlsCert, tlsKey, tlsClientCa }: TlsPaths): TlsFiles | undefined {
    if (tlsCert === undefined && tlsKey === undefined && tlsClientCa === undefined) return undefined;
    if (tlsCert === undefined || tlsKey === undefined) {
      throw new SconceError("usage", "TLS needs both --tls-cert and --tls-key");
    }
    return new TlsFiles({ tlsCert, tlsKey, tlsClientCa });
  }

  /** The `tls` option of `Bun.serve`, with the last usable content of the files. */
  get content(): Bun.TLSOptions {
    return this.#content;
  }

  /**
   * Reads the files again if any file has changed since the last call.
   * @returns whether `content` is new
   * @throws SconceError `usage` for unusable files. `content` then keeps its old value
   */
  readChanged(): boolean {
    const before = this.#stamps;
    this.#stamps = this.#stampsNow();
    if (this.#stamps === before) return false;
    this.#content = usableContent(this.#paths);
    return true;
  }

  #stampsNow(): string {
    return namesOf(this.#paths).map(fileStamp).join("\n");
  }
}

/** Reads the files, and tries a server with them before the port of the clients opens or closes. */
function usableContent(paths: CheckedPaths): Bun.TLSOptions {
  const { tlsCert, tlsKey, tlsClientCa } = paths;
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
    const names = namesOf(paths).join(", ");
    throw new SconceError("usage", `TLS: ${names} cannot be used together: ${messageOf(cause)}`, { cause });
  }
}

function namesOf(paths: CheckedPaths): string[] {
  return Object.values(paths).filter((path) => path !== undefined);
}
