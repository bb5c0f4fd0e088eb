/** Copies a model from a registry into the store. */
import { oneLine, SconceError } from "../../base/errors.ts";
import { boundedBytes } from "../../machine/network/bounded-body.ts";
import { digestOf } from "../store/blobs.ts";
import { mediaTypes } from "../store/manifest.ts";
import type { PartialBlob } from "../store/partial-blob.ts";
import type { ReceiveProgress } from "../store/receiving.ts";
import { generatedTag, latestTag } from "../store/reference.ts";
import type { ModelStore, PutResult } from "../store/store.ts";
import type { RegistryAnswer } from "./exchange.ts";
import type { Registry } from "./registry.ts";
import { formatRemote } from "./remote-reference.ts";
import { Interruption } from "./retry.ts";

export interface PullOptions {
  readonly registry: Registry;
  readonly store: ModelStore;
  /** Name of the model in the store. */
  readonly repository: string;
  readonly tags: readonly string[];
  /** Whether to skip weights and other files that a process without a model (`serve --role front`) does not need. */
  readonly withoutWeights?: boolean;
  /**
   * Digest of the model that the store has under this name, if complete. If the registry's manifest has this digest,
   * nothing is downloaded.
   */
  readonly storedDigest?: string | undefined;
  readonly onProgress?: (progress: ReceiveProgress) => void;
}

export interface PullResult extends PutResult {
  readonly receivedBytes: number;
}

/** Largest manifest that the OCI distribution spec allows, in bytes. */
const maxManifestBytes = 4 * 1024 * 1024;
const blobsAtOnce = 3;

/**
 * Media types in the `Accept` header. They include types that sconce cannot read, so that an error message can name the
 * type.
 */
const acceptedTypes = [
  mediaTypes.manifest,
  mediaTypes.index,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

/**
 * Copies a model from a registry. After a failure, the store still has the same models and tags.
 * @throws SconceError `model_not_found`, `model_invalid`, `registry_corrupt`, or `registry_…` as `Registry.request`
 */
export async function pull(options: PullOptions): Promise<PullResult> {
  const { registry, store, repository, tags, withoutWeights = false, storedDigest, onProgress } = options;
  const { remote } = registry;
  const wanted = remote.digest ?? remote.tag ?? latestTag;
  const name = formatRemote(remote.digest === undefined ? { ...remote, tag: wanted } : remote);
  const manifest = await registry.request(
    {
      method: "GET",
      target: `manifests/${wanted}`,
      headers: { Accept: acceptedTypes },
      expected: [200],
      missing: `no model ${name}`,
    },
    (answer) => readManifest(answer, name, remote.digest),
  );
  let receivedBytes = 0;
  if (storedDigest !== undefined && storedDigest === digestOf(manifest)) {
    const tag = generatedTag(storedDigest);
    return { digest: storedDigest, tag, reference: `${repository}:${tag}`, receivedBytes };
  }
  const put = await store.receive({
    repository,
    tags,
    source: formatRemote({ ...remote, tag: undefined, digest: undefined }),
    name,
    manifest,
    withoutWeights,
    atOnce: blobsAtOnce,
    signal: registry.signal,
    onProgress,
    fill: (partial, context) =>
      downloadBlob(registry, partial, {
        signal: context.signal,
        onBytes: (count) => {
          receivedBytes += count;
          context.onProgress();
        },
      }),
  });
  return { ...put, receivedBytes };
}

async function readManifest(answer: RegistryAnswer, name: string, digest: string | undefined): Promise<Uint8Array> {
  const manifest = await boundedBytes(answer.chunks(), maxManifestBytes);
  if (manifest === undefined) {
    throw new SconceError("model_invalid", `the manifest of ${name} has more than ${maxManifestBytes} bytes`);
  }
  const found = digestOf(manifest);
  const expected = digest ?? answer.headers.get("docker-content-digest") ?? found;
  if (expected === found) return manifest;
  throw new SconceError(
    "registry_corrupt",
    `the manifest of ${name} has the digest ${found}; expected ${oneLine(expected)}. Pull again; if that does not help, push the model again`,
  );
}

interface DownloadOptions {
  readonly signal: AbortSignal;
  onBytes(count: number): void;
}

/**
 * Downloads the missing bytes of a blob. Resumes with a range request after an interruption, and starts over if the
 * registry ignores the `Range` header.
 */
async function downloadBlob(registry: Registry, partial: PartialBlob, options: DownloadOptions): Promise<void> {
  const { digest, size } = partial.blob;
  const { host, repository } = registry.remote;
  let supportsRanges = true;
  const attempt = async () => {
    if (!supportsRanges) await partial.restart();
    const from = partial.doneBytes;
    const request = {
      method: "GET",
      target: `blobs/${digest}`,
      headers: from === 0 ? {} : { Range: `bytes=${from}-` },
      expected: from === 0 ? [200] : [200, 206, 416],
      missing: `${host} no longer has blob ${digest} of ${repository}; push the model again`,
      signal: options.signal,
    } as const;
    await registry.requestOnce(request, async (answer) => {
      supportsRanges = from === 0 || isFullOrFrom(answer, from);
      if (answer.status === 200 && from > 0) await partial.restart();
      else if (!supportsRanges) return;
      for await (const chunk of answer.chunks()) {
        await partial.append(chunk);
        options.onBytes(chunk.length);
      }
      // Without a Content-Length, a truncated body looks complete. So the blob's size decides whether all bytes
      // arrived.
      if (partial.doneBytes >= size) return;
      const message = `${host} sent only a part of a blob; try again later`;
      throw new Interruption(new SconceError("registry_unavailable", message));
    });
  };
  const retry = registry.retry(options.signal);
  while (partial.doneBytes < size) await retry.run(attempt, () => partial.doneBytes);
}

/** Whether the answer contains the whole blob, or exactly the requested range that begins at byte `from`. */
function isFullOrFrom({ status, headers }: RegistryAnswer, from: number): boolean {
  return status === 200 || (status === 206 && (headers.get("content-range") ?? "").startsWith(`bytes ${from}-`));
}
