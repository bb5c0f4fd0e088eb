/** Uploads a blob to a registry: first in one request, and after an interruption in chunks. */
import { SconceError } from "../../base/errors.ts";
import type { BlobRef } from "../store/blobs.ts";
import type { Registry, RegistryAnswer, RegistryRequest } from "./registry.ts";
import { Interruption } from "./retry.ts";

export interface UploadOptions {
  readonly signal: AbortSignal;
  /** Size of a chunk in bytes. A larger minimum that the registry sends replaces it. */
  readonly chunkBytes: number;
  /**
   * Other repositories of the registry that may have the blob. The registry can reuse their copy, so nothing is sent.
   */
  readonly mountFrom: readonly string[];
  /** Called with the number of bytes sent so far. */
  onProgress(doneBytes: number): void;
}

/** An unfinished upload, as the registry last described it. */
interface Session {
  /** URL to which the next chunk is sent. The registry may change it after each request. */
  readonly url: URL;
  readonly doneBytes: number;
  readonly chunkBytes: number;
}

/**
 * Uploads the blob unless the registry has it.
 * @param source.path file with the blob's content
 * @returns whether any bytes were sent
 * @throws SconceError as `Registry.request` does
 */
export async function uploadBlob(
  registry: Registry,
  source: { readonly blob: BlobRef; readonly path: string },
  options: UploadOptions,
): Promise<boolean> {
  const upload = new Upload(registry, source, options);
  const { size } = source.blob;
  let session: Session | undefined;
  const attempt = async () => {
    session = session && (await upload.resume(session));
    if (session === undefined) {
      // Checks at each try, because an interrupted upload may be complete: only its answer was lost.
      if (await upload.isInRegistry()) return upload.hasSent;
      session = await upload.begin();
      if (session === undefined) return upload.hasSent;
    }
    while (upload.isInChunks && size - session.doneBytes > session.chunkBytes) {
      session = await upload.sendChunk(session);
      options.onProgress(session.doneBytes);
    }
    await upload.finish(session);
    options.onProgress(size);
    return true;
  };
  return registry.retry(options.signal).run(attempt, () => session?.doneBytes ?? 0);
}

class Upload {
  readonly #registry: Registry;
  readonly #blob: BlobRef;
  readonly #path: string;
  readonly #options: UploadOptions;
  hasSent = false;
  /** Byte offset at which the last refused chunk began; undefined if no chunk was refused. */
  #refusedFrom: number | undefined;
  #supportsChunks = true;
  /** Largest byte offset up to which the blob was sent. */
  #sentBytes = 0;

  constructor(registry: Registry, { blob, path }: { blob: BlobRef; path: string }, options: UploadOptions) {
    this.#registry = registry;
    this.#blob = blob;
    this.#path = path;
    this.#options = options;
  }

  /**
   * Whether to upload in chunks. The first try uses one request, which is faster and not subject to a registry's limit
   * for chunks.
   */
  get isInChunks(): boolean {
    return this.hasSent && this.#supportsChunks;
  }

  isInRegistry(): Promise<boolean> {
    const { digest, size } = this.#blob;
    return this.#ask(
      { method: "HEAD", target: `blobs/${digest}`, expected: [200, 404] },
      // Compares the size, because a web server that answers 200 to every request has no file of the blob's size.
      ({ status, headers }) => status === 200 && Number(headers.get("content-length") ?? size) === size,
    );
  }

  /**
   * Starts an upload session, unless the registry can reuse a copy in another repository.
   * @returns undefined if a copy was reused, so that no upload is needed
   */
  async begin(): Promise<Session | undefined> {
    for (const from of this.#options.mountFrom) {
      try {
        return await this.#post(`?${new URLSearchParams({ mount: this.#blob.digest, from })}`);
      } catch (error) {
        // If the registry refuses to reuse a copy, the next repository is tried.
        if (!(error instanceof SconceError && error.code.startsWith("registry_"))) throw error;
      }
    }
    return this.#post("");
  }

  /**
   * Asks the registry how many bytes it has received.
   * @returns undefined if the upload must start over
   */
  async resume(session: Session): Promise<Session | undefined> {
    const request = { method: "GET", target: session.url, expected: [204, 200, 400, 404, 416] } as const;
    const found = await this.#ask(request, (answer) => {
      if (answer.status >= 400) return undefined;
      const doneBytes = receivedBytes(answer) ?? 0;
      // The registry reports bytes that were never sent, so its state is wrong and the upload starts over.
      if (doneBytes > this.#sentBytes) return undefined;
      return { ...session, url: this.#location(answer, session.url), doneBytes };
    });
    if (this.#refusedFrom === undefined || (found && found.doneBytes > this.#refusedFrom)) return found;
    this.#supportsChunks = false;
    return undefined;
  }

  async sendChunk(session: Session): Promise<Session> {
    const from = session.doneBytes;
    const to = Math.min(from + session.chunkBytes, this.#blob.size);
    this.hasSent = true;
    this.#sentBytes = Math.max(this.#sentBytes, to);
    const request = {
      method: "PATCH",
      target: session.url,
      headers: { "Content-Type": "application/octet-stream", "Content-Range": `${from}-${to - 1}` },
      body: Bun.file(this.#path).slice(from, to),
      expected: [202, 201, 204, 404, 416],
    } as const;
    return this.#ask(request, async (answer) => {
      const doneBytes = answer.status >= 400 ? from : (receivedBytes(answer) ?? to);
      if (doneBytes > from && doneBytes <= to) return { ...session, url: this.#location(answer), doneBytes };
      this.#refusedFrom = from;
      throw new Interruption(this.#partRefused((await answer.fault()).text));
    });
  }

  /** Sends the remaining bytes in the request that completes the upload. */
  async finish({ url, doneBytes }: Session): Promise<void> {
    const target = new URL(url);
    // Appends the digest as text, because `URLSearchParams` would change the encoding of a signed query.
    target.search = `${url.search}${url.search === "" ? "?" : "&"}digest=${encodeURIComponent(this.#blob.digest)}`;
    this.hasSent = true;
    this.#sentBytes = this.#blob.size;
    const rest = this.#blob.size - doneBytes;
    const request = {
      method: "PUT",
      target,
      headers: {
        "Content-Type": "application/octet-stream",
        ...(doneBytes > 0 && rest > 0 && { "Content-Range": `${doneBytes}-${this.#blob.size - 1}` }),
      },
      body: rest === 0 ? new Uint8Array() : Bun.file(this.#path).slice(doneBytes, this.#blob.size),
      onSent: (bytes: number) => this.#options.onProgress(doneBytes + bytes),
      expected: [201, 204, 404, 416],
    } as const;
    await this.#ask(request, async (answer) => {
      if (answer.status >= 400) throw new Interruption(this.#partRefused((await answer.fault()).text));
    });
  }

  #post(query: string): Promise<Session | undefined> {
    const { host, repository } = this.#registry.remote;
    const first = this.#registry.product.createFirst ?? "it";
    const missing = `${host} has no repository ${repository}, and a push does not create it; create ${first} first`;
    const request = { method: "POST", target: `blobs/uploads/${query}`, expected: [201, 202], missing } as const;
    return this.#ask(request, (answer) => {
      if (answer.status === 201) return undefined;
      const least = Number(answer.headers.get("oci-chunk-min-length") ?? 0);
      const chunkBytes = Math.max(this.#options.chunkBytes, Number.isSafeInteger(least) ? least : 0);
      return { url: this.#location(answer), doneBytes: 0, chunkBytes };
    });
  }

  /** Sends a request without retries, because `resume` must run before a retry. */
  #ask<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    return this.#registry.requestOnce({ ...request, signal: this.#options.signal }, read);
  }

  /**
   * The URL for the next request, from the `Location` header.
   * @param before URL to use if there is no such header
   */
  #location({ headers, url }: RegistryAnswer, before?: URL): URL {
    const text = headers.get("location");
    if (text === null && before) return before;
    const location = text !== null && URL.canParse(text, url.href) ? new URL(text, url) : undefined;
    if (location?.protocol === "https:" || (location?.protocol === "http:" && url.protocol === "http:"))
      return location;
    throw new SconceError(
      "registry_refused",
      `${this.#registry.remote.host} answered an upload without a usable Location`,
    );
  }

  /**
   * The error when the registry refuses a part of the blob. The caller retries: the next try first asks the registry
   * which bytes it has.
   */
  #partRefused(reason: string): SconceError {
    const { host } = this.#registry.remote;
    return new SconceError("registry_refused", `${host} refused a part of an upload: ${reason}`);
  }
}

/**
 * Number of received bytes, from a header such as `Range: 0-1023`; undefined without it. The reference registry sends
 * `0-0` when it has no bytes.
 */
function receivedBytes({ headers }: RegistryAnswer): number | undefined {
  const last = /^(?:bytes=)?0-(\d+)$/.exec(headers.get("range") ?? "")?.[1];
  if (last === undefined) return undefined;
  return last === "0" ? 0 : Number(last) + 1;
}
