/** Uploads a blob to a registry in one request, and starts again after an interruption. */
import { SconceError } from "../../base/errors.ts";
import type { BlobRef } from "../store/blobs.ts";
import type { Registry, RegistryAnswer, RegistryRequest } from "./registry.ts";
import { Interruption } from "./retry.ts";

export interface UploadOptions {
  readonly signal: AbortSignal;
  /** Called with the number of bytes sent so far. After an interruption the number begins again. */
  onProgress(doneBytes: number): void;
}

/**
 * Uploads the blob unless the registry has it.
 * @param source.path file with the blob's content
 * @returns whether any bytes were sent
 * @throws SconceError as `Registry.request` does
 */
export async function uploadBlob(
  registry: Registry,
  { blob, path }: { readonly blob: BlobRef; readonly path: string },
  options: UploadOptions,
): Promise<boolean> {
  let hasSent = false;
  // Requests have no retries of their own, because each try begins with a new upload.
  const ask = <T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>) =>
    registry.requestOnce({ ...request, signal: options.signal }, read);
  return registry.retry(options.signal).run(async () => {
    // Checks at each try, because an interrupted upload may be complete: only its answer was lost.
    if (await ask(existence(blob), (answer) => hasSize(answer, blob.size))) return hasSent;
    const location = await ask(beginning(registry), (answer) => locationOf(answer, registry.remote.host));
    hasSent = true;
    await ask(content(blob, { path, location, onSent: options.onProgress }), async (answer) => {
      if (answer.status < 400) return;
      const { host } = registry.remote;
      const message = `${host} refused an upload: ${(await answer.fault()).text}`;
      throw new Interruption(new SconceError("registry_refused", message));
    });
    options.onProgress(blob.size);
    return true;
  });
}

function existence({ digest }: BlobRef): RegistryRequest {
  return { method: "HEAD", target: `blobs/${digest}`, expected: [200, 404] };
}

/** Compares the size, because a web server that answers 200 to every request has no file of the blob's size. */
function hasSize({ status, headers }: RegistryAnswer, size: number): boolean {
  return status === 200 && Number(headers.get("content-length") ?? size) === size;
}

function beginning({ remote: { host, repository } }: Registry): RegistryRequest {
  const missing = `${host} has no repository ${repository}, and a push does not create it; create it first`;
  return { method: "POST", target: "blobs/uploads/", expected: [202], missing };
}

interface Content {
  readonly path: string;
  readonly location: URL;
  onSent(bytes: number): void;
}

function content({ digest, size }: BlobRef, { path, location, onSent }: Content): RegistryRequest {
  const target = new URL(location);
  // Appends the digest as text, because `URLSearchParams` would change the encoding of a signed query.
  target.search = `${location.search}${location.search === "" ? "?" : "&"}digest=${encodeURIComponent(digest)}`;
  return {
    method: "PUT",
    target,
    headers: { "Content-Type": "application/octet-stream" },
    body: size === 0 ? new Uint8Array() : Bun.file(path).slice(0, size),
    onSent,
    // A registry may have discarded the upload.
    expected: [201, 204, 404, 416],
  };
}

/** URL for the content, from the `Location` header. */
function locationOf({ headers, url }: RegistryAnswer, host: string): URL {
  const text = headers.get("location");
  const location = text !== null && URL.canParse(text, url.href) ? new URL(text, url) : undefined;
  if (location?.protocol === "https:" || (location?.protocol === "http:" && url.protocol === "http:")) return location;
  throw new SconceError("registry_refused", `${host} answered an upload without a usable Location`);
}
