/** Requests to package indexes and to the hosts of their files: credentials, redirects, silence, and trying again. */
import { messageOf, oneLine, SconceError } from "../../../base/errors.ts";
import { Exchange } from "../../network/exchange.ts";
import { Interruption, Retry } from "../../network/retry.ts";

export interface IndexClientOptions {
  readonly signal: AbortSignal;
  /** A file of trusted authorities. */
  readonly cert?: string | undefined;
  readonly proxy?: string | undefined;
  /** Before the second try. */
  readonly retryDelayMs?: number;
  /** How long a server may send nothing. */
  readonly silenceMs?: number;
}

export interface IndexAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Where it was asked for at last. */
  readonly url: URL;
  chunks(): AsyncIterable<Uint8Array>;
}

const maxRedirects = 10;

export class IndexClient {
  readonly signal: AbortSignal;
  readonly #options: IndexClientOptions;
  /** By origin: what an index's URL had before its host. */
  readonly #credentials = new Map<string, string>();
  #hasAnswered = false;

  constructor(options: IndexClientOptions) {
    this.signal = options.signal;
    this.#options = options;
  }

  /** The same URL without credentials, which from then on go to its origin in a header. */
  withoutCredentials(text: string): URL {
    const url = new URL(text);
    if (url.username !== "") {
      const given = `${unescaped(url.username)}:${unescaped(url.password)}`;
      this.#credentials.set(url.origin, `Basic ${Buffer.from(given).toString("base64")}`);
    }
    url.username = "";
    url.password = "";
    return url;
  }

  retry(): Retry {
    return new Retry({ signal: this.signal, firstDelayMs: this.#options.retryDelayMs ?? 500 });
  }

  /** Asks until there is an answer. @throws SconceError `index_unavailable`, or what `read` throws */
  async ask<T>(url: URL, headers: Record<string, string>, read: (answer: IndexAnswer) => Promise<T>): Promise<T> {
    return this.retry().run(() => this.askOnce(url, headers, read));
  }

  /** The same, once: what a second try might better is thrown as an `Interruption`. Not found (404) and ranges (416) are answers. */
  async askOnce<T>(url: URL, headers: Record<string, string>, read: (answer: IndexAnswer) => Promise<T>): Promise<T> {
    try {
      await using exchange = await this.#open(url, headers);
      const { response } = exchange;
      const { status } = response;
      if (status === 429 || status >= 500) {
        throw new Interruption(unavailable(`${url.host} can't answer now: status ${status}; try again later`));
      }
      if (status === 401 || status === 403) throw this.#denied(url, status);
      if (status >= 300 && status !== 404 && status !== 416) throw unavailable(`${url.host} answers ${status}`);
      return await read({ status, headers: response.headers, url: exchange.url, chunks: () => exchange.chunks() });
    } catch (error) {
      this.signal.throwIfAborted();
      throw error;
    }
  }

  async #open(url: URL, headers: Record<string, string>): Promise<Exchange> {
    const { cert, proxy, silenceMs = 60_000 } = this.#options;
    const exchange = await Exchange.open(
      {
        method: "GET",
        url,
        headers: ({ origin }) => {
          const credentials = this.#credentials.get(origin);
          return { ...headers, ...(credentials !== undefined && { Authorization: credentials }) };
        },
      },
      {
        signal: this.signal,
        silenceMs,
        maxRedirects,
        connection: {
          ...(cert !== undefined && { tls: { ca: Bun.file(cert) } }),
          ...(proxy !== undefined && { proxy }),
        },
        failure: (from, error) => {
          const fault = connectionFault(from, error);
          // A name or port that never answered is likelier to be misspelled than to be restarting.
          return this.#hasAnswered ? fault : fault.error;
        },
        refusedRedirect: (from, why) => unavailable(`${from.host} ${why}`),
      },
    );
    this.#hasAnswered = true;
    return exchange;
  }

  #denied(url: URL, status: number): SconceError {
    const what = this.#credentials.has(url.origin)
      ? "does not accept the name and password of its URL"
      : "asks for a login: put name and password into its URL, https://NAME:PASSWORD@HOST/…, in pip's configuration or --index";
    return unavailable(`${url.host} ${what} (status ${status})`);
  }
}

/** As Python reads a part of a URL: a percent sign that escapes nothing stands for itself. */
export function unescaped(text: string): string {
  return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}

export function unavailable(message: string, cause?: unknown): SconceError {
  return new SconceError("index_unavailable", message, { cause });
}

/** Names the host alone: a URL may hold a signature. */
function connectionFault(url: URL, error: unknown): Interruption {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const isTrusted = !/CERT|SELF_SIGNED|UNABLE_TO/.test(code);
  const fix = isTrusted ? "check the network and the address" : "name the authority's file in PIP_CERT";
  const why = error instanceof DOMException ? "it has sent nothing for too long" : oneLine(code || messageOf(error));
  return new Interruption(unavailable(`${url.host} can't be reached (${why}); ${fix}`, error));
}
