/** Requests to package indexes and to the hosts of their files: credentials, redirects, silence, and trying again. */
import { version } from "../../package.json";
import { messageOf, oneLine, SconceError } from "../errors.ts";
import { isLoopback } from "../registry/remote-reference.ts";
import { Interruption, Retry } from "../registry/retry.ts";
import { SilenceLimit } from "../registry/silence-limit.ts";

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

interface Followed extends Pick<IndexAnswer, "status" | "headers" | "url"> {
  readonly body: Response["body"];
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
    const retry = this.retry();
    for (;;) {
      try {
        return await this.askOnce(url, headers, read);
      } catch (error) {
        await retry.wait(error);
      }
    }
  }

  /** The same, once: what a second try might better is thrown as an `Interruption`. Not found (404) and ranges (416) are answers. */
  async askOnce<T>(url: URL, headers: Record<string, string>, read: (answer: IndexAnswer) => Promise<T>): Promise<T> {
    const limit = new SilenceLimit(this.signal, this.#options.silenceMs ?? 60_000);
    limit.touch();
    let answer: Followed | undefined;
    try {
      answer = await this.#follow(url, headers, limit);
      const { status } = answer;
      if (status === 429 || status >= 500) {
        throw new Interruption(unavailable(`${url.host} can't answer now: status ${status}; try again later`));
      }
      if (status === 401 || status === 403) throw this.#denied(url, status);
      if (status >= 300 && status !== 404 && status !== 416) throw unavailable(`${url.host} answers ${status}`);
      const { body, ...rest } = answer;
      return await read({ ...rest, chunks: () => chunks(body, url, limit) });
    } catch (error) {
      this.signal.throwIfAborted();
      throw error;
    } finally {
      limit.end();
      // What was not read is not sent either.
      await answer?.body?.cancel().catch(() => {});
    }
  }

  async #follow(first: URL, headers: Record<string, string>, limit: SilenceLimit): Promise<Followed> {
    const { cert, proxy } = this.#options;
    let url = first;
    for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
      const credentials = this.#credentials.get(url.origin);
      const response = await fetch(url, {
        headers: {
          "User-Agent": `sconce/${version}`,
          // A wheel has the digest of its bytes as they are stored, and ranges count these.
          "Accept-Encoding": "identity",
          ...headers,
          ...(credentials !== undefined && { Authorization: credentials }),
        },
        signal: limit.signal,
        redirect: "manual",
        timeout: false,
        ...(cert !== undefined && { tls: { ca: Bun.file(cert) } }),
        ...(isLoopback(url.host) ? { proxy: false } : proxy !== undefined && { proxy }),
      }).catch((error: unknown) => {
        const fault = connectionFault(url, error);
        // A name or port that never answered is likelier to be misspelled than to be restarting.
        throw this.#hasAnswered ? fault : fault.error;
      });
      this.#hasAnswered = true;
      const location = response.headers.get("location");
      if (response.status < 300 || response.status > 308 || location === null) {
        return { status: response.status, headers: response.headers, body: response.body, url };
      }
      await response.body?.cancel();
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
      if (next?.protocol !== "https:" && !(next?.protocol === "http:" && url.protocol === "http:")) {
        throw unavailable(`${url.host} redirects to something else than https`);
      }
      url = next;
    }
    throw unavailable(`${first.host} redirects more than ${maxRedirects} times`);
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

async function* chunks(body: Response["body"], url: URL, limit: SilenceLimit): AsyncIterable<Uint8Array> {
  const reader = body?.getReader();
  try {
    while (reader) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw connectionFault(url, error);
      });
      if (done) return;
      limit.touch();
      yield value;
    }
  } finally {
    await reader?.cancel().catch(() => {});
  }
}

/** Names the host alone: a URL may hold a signature. */
function connectionFault(url: URL, error: unknown): Interruption {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const isTrusted = !/CERT|SELF_SIGNED|UNABLE_TO/.test(code);
  const fix = isTrusted ? "check the network and the address" : "name the authority's file in PIP_CERT";
  const why = error instanceof DOMException ? "it has sent nothing for too long" : oneLine(code || messageOf(error));
  return new Interruption(unavailable(`${url.host} can't be reached (${why}); ${fix}`, error));
}
