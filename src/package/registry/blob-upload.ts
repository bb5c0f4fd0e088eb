/** Sends a blob to a registry in one request; after it was cut short, in chunks. */
import { SconceError } from "../../base/errors.ts";
import { Interruption } from "../../machine/network/retry.ts";
import type { BlobRef } from "../store/blobs.ts";
import type { Registry, RegistryAnswer, RegistryRequest } from "./registry.ts";

export interface UploadOptions {
  readonly signal: AbortSignal;
  /** The size of chunks; a registry may ask for larger ones. */
  readonly chunkBytes: number;
  /** Other repositories of the registry that may have the blob. */
  readonly mountFrom: readonly string[];
  /** Told how much of the blob is sent. */
  onProgress(doneBytes: number): void;
}

/** The registry's side of an upload under way. */
interface Session {
  /** Where the next request goes. */
  readonly url: URL;
  /** How much the registry has. */
  readonly doneBytes: number;
  readonly chunkBytes: number;
}

/**
 * Sends the blob unless the registry has it.
 *
 * @param path of its content
 * @returns whether it was sent
 * @throws SconceError as `Registry.ask` does
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
      // Also where an upload is gone: the registry may have got all, and only its answer was lost.
      if (await upload.isThere()) return upload.hasSent;
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
  /** Whether a part of it was sent. */
  hasSent = false;
  /** Where the registry did not take a chunk. */
  #refusedAt: number | undefined;
  #takesChunks = true;
  /** To where it was sent, at the furthest. */
  #sentBytes = 0;

  constructor(registry: Registry, { blob, path }: { blob: BlobRef; path: string }, options: UploadOptions) {
    this.#registry = registry;
    this.#blob = blob;
    this.#path = path;
    this.#options = options;
  }

  /** Not for a first try: some registries take small chunks only. */
  get isInChunks(): boolean {
    return this.hasSent && this.#takesChunks;
  }

  isThere(): Promise<boolean> {
    const { digest, size } = this.#blob;
    return this.#ask(
      { method: "HEAD", target: `blobs/${digest}`, expected: [200, 404] },
      // A web server that answers everything has a page of another size.
      ({ status, headers }) => status === 200 && Number(headers.get("content-length") ?? size) === size,
    );
  }

  /**
   * Begins the upload, unless the registry can take the blob from another of its repositories, which sends nothing.
   *
   * @returns undefined when it has it now
   */
  async begin(): Promise<Session | undefined> {
    for (const from of this.#options.mountFrom) {
      try {
        return await this.#post(`?${new URLSearchParams({ mount: this.#blob.digest, from })}`);
      } catch (error) {
        // What may not be read there is sent from here.
        if (!(error instanceof SconceError && error.code.startsWith("registry_"))) throw error;
      }
    }
    return this.#post("");
  }

  /** Asks how much the registry has; undefined where the upload has to begin anew. */
  async resume(session: Session): Promise<Session | undefined> {
    const request = { method: "GET", target: session.url, expected: [204, 200, 400, 404, 416] } as const;
    const found = await this.#ask(request, (answer) => {
      if (answer.status >= 400) return undefined;
      const doneBytes = receivedBytes(answer) ?? 0;
      // It can't have what was never sent.
      if (doneBytes > this.#sentBytes) return undefined;
      return { ...session, url: this.#location(answer, session.url), doneBytes };
    });
    if (this.#refusedAt === undefined || (found && found.doneBytes > this.#refusedAt)) return found;
    this.#takesChunks = false;
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
      this.#refusedAt = from;
      throw new Interruption(this.#notTaken((await answer.fault()).text));
    });
  }

  /** Names the blob, and sends what is left of it. */
  async finish({ url, doneBytes }: Session): Promise<void> {
    const target = new URL(url);
    // Added to the text: reading the query and writing it anew would change what storage may have signed.
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
      if (answer.status >= 400) throw new Interruption(this.#notTaken((await answer.fault()).text));
    });
  }

  #post(query: string): Promise<Session | undefined> {
    const { host, repository } = this.#registry.remote;
    const first = this.#registry.manners.createFirst ?? "it";
    const missing = `${host} has no repository ${repository}, and a push does not create it; create ${first} first`;
    const request = { method: "POST", target: `blobs/uploads/${query}`, expected: [201, 202], missing } as const;
    return this.#ask(request, (answer) => {
      if (answer.status === 201) return undefined;
      const least = Number(answer.headers.get("oci-chunk-min-length") ?? 0);
      const chunkBytes = Math.max(this.#options.chunkBytes, Number.isSafeInteger(least) ? least : 0);
      return { url: this.#location(answer), doneBytes: 0, chunkBytes };
    });
  }

  /** Once: what was cut short changes what is to be asked next. */
  #ask<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    return this.#registry.askOnce({ ...request, signal: this.#options.signal }, read);
  }

  /** Where the upload goes on: a path, or a URL, perhaps of another host. */
  #location({ headers, url }: RegistryAnswer, before?: URL): URL {
    const text = headers.get("location");
    if (text === null && before) return before;
    const location = text !== null && URL.canParse(text, url.href) ? new URL(text, url) : undefined;
    if (location?.protocol === "https:" || (location?.protocol === "http:" && url.protocol === "http:"))
      return location;
    throw new SconceError("registry_refused", `${this.#registry.remote.host} does not say where an upload goes on`);
  }

  /**
   * The registry has another part of the upload than expected, has forgotten it, or refuses a request of this size. The next try asks what
   * it has: `fetch` sends a request again whose connection was just closing, so the registry can have all of it.
   */
  #notTaken(reason: string): SconceError {
    const { host } = this.#registry.remote;
    return new SconceError("registry_refused", `${host} did not take a part of an upload: ${reason}`);
  }
}

/** From `Range: 0-1023`. The reference registry says `0-0` of nothing, too. */
function receivedBytes({ headers }: RegistryAnswer): number | undefined {
  const last = /^(?:bytes=)?0-(\d+)$/.exec(headers.get("range") ?? "")?.[1];
  if (last === undefined) return undefined;
  return last === "0" ? 0 : Number(last) + 1;
}
