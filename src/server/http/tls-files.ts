/** The files of a TLS server: certificate, key, and authorities of clients. */
import { readFileSync, statSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { ServeConfig } from "../config.ts";

export type TlsPaths = Partial<Pick<ServeConfig, "tlsCert" | "tlsKey" | "tlsClientCa">>;

export class TlsFiles {
  readonly #paths: readonly string[];
  readonly #options: TlsPaths;
  #version: string;

  private constructor(options: TlsPaths) {
    this.#options = options;
    this.#paths = Object.values(options).filter((path) => path !== undefined);
    this.#version = this.#read();
  }

  /**
   * @returns undefined for a server without TLS
   * @throws SconceError `usage` for options that belong together
   */
  static of({ tlsCert, tlsKey, tlsClientCa }: TlsPaths): TlsFiles | undefined {
    if (tlsCert === undefined && tlsKey === undefined && tlsClientCa === undefined) return undefined;
    if (tlsCert === undefined || tlsKey === undefined) {
      throw new SconceError("usage", "TLS needs both --tls-cert and --tls-key");
    }
    return new TlsFiles({ tlsCert, tlsKey, tlsClientCa });
  }

  /** Options of `Bun.serve`. @throws SconceError `usage` for a file that cannot be read */
  content(): Bun.TLSOptions {
    const { tlsCert = "", tlsKey = "", tlsClientCa } = this.#options;
    const clients =
      tlsClientCa === undefined ? {} : { ca: textOf(tlsClientCa), requestCert: true, rejectUnauthorized: true };
    return { cert: textOf(tlsCert), key: textOf(tlsKey), ...clients };
  }

  /** Whether a file has changed since the last call. */
  hasChanged(): boolean {
    const before = this.#version;
    this.#version = this.#read();
    return this.#version !== before;
  }

  #read(): string {
    return this.#paths
      .map((path) => {
        const stat = statSync(path, { throwIfNoEntry: false });
        return stat === undefined ? "" : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
      })
      .join(" ");
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new SconceError("usage", `TLS: ${messageOf(error)}`);
  }
}
