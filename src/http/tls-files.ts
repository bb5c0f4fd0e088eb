/** Reads and checks the files of a TLS server: its certificate, its key, and the certificate authorities of its clients. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { codeOf, messageOf, SconceError } from "../base/errors.ts";
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
    this.#content = checkedContent(paths);
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
    const content = checkedContent(this.#paths);
    try {
      // A trial server finds faults that only Bun reports, before the port of the clients closes.
      void Bun.serve({ port: 0, hostname: "127.0.0.1", tls: content, fetch: () => new Response() }).stop(true);
    } catch (error) {
      throw new SconceError("usage", `TLS: the files cannot be used: ${messageOf(error)}`);
    }
    this.#content = content;
    return true;
  }

  #stampsNow(): string {
    return Object.values(this.#paths)
      .filter((path) => path !== undefined)
      .map(fileStamp)
      .join("\n");
  }
}

/** Reads the files and checks that they belong together. Errors of OpenSSL name no file, so each file is checked alone first. */
function checkedContent({ tlsCert, tlsKey, tlsClientCa }: CheckedPaths): Bun.TLSOptions {
  const [cert, key] = [textOf(tlsCert), textOf(tlsKey)];
  if (!certificateIn(cert, tlsCert).checkPrivateKey(keyIn(key, tlsKey))) {
    throw new SconceError("usage", `TLS: the key in ${tlsKey} does not belong to the certificate in ${tlsCert}`);
  }
  if (tlsClientCa === undefined) return { cert, key };
  const ca = textOf(tlsClientCa);
  certificateIn(ca, tlsClientCa);
  return { cert, key, ca, requestCert: true, rejectUnauthorized: true };
}

/** The first certificate in PEM text. */
function certificateIn(pem: string, path: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new SconceError("usage", `TLS: ${path} has no certificate in PEM format`, { cause });
  }
}

function keyIn(pem: string, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    const fault =
      codeOf(cause) === "ERR_MISSING_PASSPHRASE"
        ? `the key in ${path} is encrypted; decrypt it with: openssl pkey -in ${path} -out NEW`
        : `${path} has no private key in PEM format`;
    throw new SconceError("usage", `TLS: ${fault}`, { cause });
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new SconceError("usage", `TLS: ${path} cannot be read: ${messageOf(cause)}`, { cause });
  }
}
