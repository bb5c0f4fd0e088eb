/** Copies a model from the store to a registry. */
import { oneLine, SconceError } from "../../base/errors.ts";
import { inParallel } from "../../base/parallel.ts";
import type { BlobRef } from "../store/blobs.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { type ReceiveProgress, Tally } from "../store/receiving.ts";
import type { ModelStore } from "../store/store.ts";
import { type Registry, type RegistryRequest, safeUrl } from "./registry.ts";
import { Interruption } from "./retry.ts";

export interface PushOptions {
  readonly registry: Registry;
  readonly store: ModelStore;
  readonly model: PackagedModel;
  /** Tag of the model in the registry. */
  readonly tag: string;
  readonly onProgress?: (progress: ReceiveProgress) => void;
}

export interface PushResult {
  /** Number of blobs that were sent, without those that the registry already had. */
  readonly sentBlobs: number;
  readonly sentBytes: number;
  readonly blobs: number;
}

const blobsAtOnce = 3;

/**
 * Sends the blobs that the registry lacks, then the manifest. The registry gets the manifest's exact bytes, so the
 * digest stays the same.
 * @throws SconceError `registry_…` as `Registry.request`, `store_corrupt`
 */
export async function push({ registry, store, model, tag, onProgress }: PushOptions): Promise<PushResult> {
  const { config, layers } = model.manifest;
  const blobs = [...Map.groupBy([config, ...layers], ({ digest }) => digest).values()].flatMap(([blob]) => blob ?? []);
  const tally = new Tally(blobs, onProgress);
  const sent: BlobRef[] = [];
  await inParallel(blobs, { atOnce: blobsAtOnce, signal: registry.signal }, async (blob, signal) => {
    const upload = {
      blob,
      path: store.blobPath(blob.digest),
      signal,
      onSent: (bytes: number) => tally.set(blob, bytes),
    };
    if (await uploadBlob(registry, upload)) sent.push(blob);
    tally.set(blob, blob.size);
  });
  await putManifest({ registry, store, model, tag });
  return {
    sentBlobs: sent.length,
    sentBytes: sent.reduce((bytes, { size }) => bytes + size, 0),
    blobs: blobs.length,
  };
}

interface Upload {
  readonly blob: BlobRef;
  /** File with the blob's content. */
  readonly path: string;
  readonly signal: AbortSignal;
  /** Called with the number of bytes sent so far. After an interruption the number begins again. */
  onSent(bytes: number): void;
}

/** Uploads the blob in one request, unless the registry has it. @returns whether any bytes were sent */
async function uploadBlob(registry: Registry, { blob, path, signal, onSent }: Upload): Promise<boolean> {
  const { digest, size } = blob;
  const { host, repository } = registry.remote;
  let hasSent = false;
  // Requests have no retries of their own, because each try begins with a new upload.
  return registry.retry(signal).run(async () => {
    // Checks at each try, because an interrupted upload may be complete: only its answer was lost. Compares the size,
    // because a web server that answers 200 to every request has no file of the blob's size.
    const check: RegistryRequest = { method: "HEAD", target: `blobs/${digest}`, expected: [200, 404], signal };
    const has = ({ status, headers }: { status: number; headers: Headers }) =>
      status === 200 && Number(headers.get("content-length") ?? size) === size;
    if (await registry.requestOnce(check, has)) return hasSent;
    const missing = `${host} has no repository ${repository}, and a push does not create it; create it first`;
    const begin: RegistryRequest = { method: "POST", target: "blobs/uploads/", expected: [202], missing, signal };
    const target = await registry.requestOnce(begin, ({ headers, url }) => safeUrl(headers.get("location"), url));
    if (target === undefined) {
      throw new SconceError("registry_refused", `${host} answered an upload without a usable Location`);
    }
    // Appends the digest as text, because `URLSearchParams` would change the encoding of a signed query.
    target.search = `${target.search}${target.search === "" ? "?" : "&"}digest=${encodeURIComponent(digest)}`;
    hasSent = true;
    const content: RegistryRequest = {
      method: "PUT",
      target,
      headers: { "Content-Type": "application/octet-stream" },
      body: size === 0 ? new Uint8Array() : Bun.file(path).slice(0, size),
      onSent,
      // A registry may have discarded the upload.
      expected: [201, 204, 404, 416],
      signal,
    };
    await registry.requestOnce(content, async (answer) => {
      if (answer.status < 400) return;
      const message = `${host} refused an upload: ${(await answer.fault()).text}`;
      throw new Interruption(new SconceError("registry_refused", message));
    });
    return true;
  });
}

async function putManifest({ registry, store, model, tag }: PushOptions): Promise<void> {
  const { host, repository } = registry.remote;
  const request: RegistryRequest = {
    method: "PUT",
    target: `manifests/${tag}`,
    headers: { "Content-Type": model.manifest.mediaType },
    body: await store.manifestBytes(model),
    expected: [200, 201, 202],
  };
  await registry.request(request, ({ headers, status }) => {
    const found = headers.get("docker-content-digest");
    // Some registries send no digest. A web server that answers 200 to every request has stored nothing.
    if (found === model.digest || (found === null && status === 201)) return;
    const answered = `answered ${status} with ${found === null ? "no digest" : `the digest ${oneLine(found)}`}`;
    throw new SconceError(
      "registry_corrupt",
      `${host} ${answered} to ${repository}:${tag}; expected ${model.digest}: check the name and the port of the registry`,
    );
  });
}
