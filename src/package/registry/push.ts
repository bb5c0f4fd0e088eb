/** Copies a model from the store to a registry. */
import { oneLine, SconceError } from "../../base/errors.ts";
import { inParallel } from "../../base/parallel.ts";
import type { BlobRef } from "../store/blobs.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { type ReceiveProgress, Tally } from "../store/receiving.ts";
import type { ModelStore } from "../store/store.ts";
import { uploadBlob } from "./blob-upload.ts";
import type { Registry } from "./registry.ts";

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
    const wasSent = await uploadBlob(
      registry,
      { blob, path: store.blobPath(blob.digest) },
      {
        signal,
        onProgress: (doneBytes) => tally.set(blob, doneBytes),
      },
    );
    tally.set(blob, blob.size);
    if (wasSent) sent.push(blob);
  });
  await putManifest({ registry, store, model, tag });
  return {
    sentBlobs: sent.length,
    sentBytes: sent.reduce((bytes, { size }) => bytes + size, 0),
    blobs: blobs.length,
  };
}

async function putManifest({ registry, store, model, tag }: PushOptions): Promise<void> {
  const manifest = await store.manifestBytes(model);
  const { host, repository } = registry.remote;
  const request = {
    method: "PUT",
    target: `manifests/${tag}`,
    headers: { "Content-Type": model.manifest.mediaType },
    body: manifest,
    expected: [200, 201, 202],
  } as const;
  await registry.request(request, ({ headers, status }) => {
    const found = headers.get("docker-content-digest");
    if (found === model.digest) return;
    if (found === null) {
      // A web server that answers 200 to every request has stored nothing; a registry answers 201.
      if (status === 201) return;
      throw new SconceError(
        "registry_refused",
        `${host} does not answer like a registry (${status} to a manifest); check the name and the port`,
      );
    }
    const message = `${host} stored ${repository}:${tag} with the digest ${oneLine(found)}; expected ${model.digest}`;
    throw new SconceError("registry_corrupt", message);
  });
}
