/** Reads the files of a TLS server: its certificate, its key, and the certificate authorities of its clients. */
import { readFileSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import { fileStamp } from "../../machine/files/file-stamp.ts";
import type { ServeConfig } from "../config.ts";

export type TlsPaths = Partial<Pick<ServeConfig, "tlsCert" | "tlsKey" | "tlsClientCa">>;

export class TlsFiles {
  readonly #paths: readonly string[];
  readonly #options: TlsPaths;
  #stamps: string;

  private constructor(options: TlsPaths) {
    this.#options = options;
    this.#paths = Object.values(options).filter((path) => path !== undefined);
    this.#stamps = this.#stampsNow();
  }

  /**
   * @returns undefined for a server without TLS
   * @throws SconceError `usage` if only one of --tls-cert and --tls-key is given
   */
  static of({ tlsCert, tlsKey, tlsClientCa }: TlsPaths): TlsFiles | undefined {
    if (tlsCert === undefined && tlsKey === undefined && tlsClientCa === undefined) return undefined;
    if (tlsCert === undefined || tlsKey === undefined) {
      throw new SconceError("usage", "TLS needs both --tls-cert and --tls-key");
    }
    return new TlsFiles({ tlsCert, tlsKey, tlsClientCa });
  }

  /** Reads the files. @returns the `tls` option of `Bun.serve` @throws SconceError `usage` for a file that cannot be read */
  content(): Bun.TLSOptions {
    const { tlsCert = "", tlsKey = "", tlsClientCa } = this.#options;
    const clients =
      tlsClientCa === undefined ? {} : { ca: textOf(tlsClientCa), requestCert: true, rejectUnauthorized: true };
    return { cert: textOf(tlsCert), key: textOf(tlsKey), ...clients };
  }

  /** Whether a file has changed since the last call. */
  hasChanged(): boolean {
    const before = this.#stamps;
    this.#stamps = this.#stampsNow();
    return this.#stamps !== before;
  }

  #stampsNow(): string {
    return this.#paths.map(fileStamp).join("\n");
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new SconceError("usage", `TLS: ${messageOf(error)}`);
  }
}
