/** Copies a model from a registry into the store. */
import { z } from "zod";
import { oneLine, SconceError } from "../../base/errors.ts";
import { limitFaults } from "../../base/schemas/fault-limit.ts";
import { boundedBytes, boundedJson } from "../../machine/network/bounded-body.ts";
import { digestOf } from "../store/blobs.ts";
import { mediaTypes } from "../store/manifest.ts";
import type { ReceiveProgress } from "../store/receiving.ts";
import { generatedTag, latestTag } from "../store/reference.ts";
import type { ModelStore, PutResult } from "../store/store.ts";
import { downloadBlob } from "./blob-download.ts";
import type { Registry, RegistryAnswer } from "./registry.ts";
import { formatRemote } from "./remote-reference.ts";

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
  const { manifest, name } = await fetchManifest(registry);
  let receivedBytes = 0;
  if (storedDigest !== undefined && storedDigest === digestOf(manifest)) {
    const tag = generatedTag(storedDigest);
    return { digest: storedDigest, tag, reference: `${repository}:${tag}`, receivedBytes };
  }
  const put = await store.receive({
    repository,
    tags,
    source: formatRemote({ ...registry.remote, tag: undefined, digest: undefined }),
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

async function fetchManifest(registry: Registry): Promise<{ manifest: Uint8Array; name: string }> {
  const { remote } = registry;
  const wanted = remote.digest ?? remote.tag ?? latestTag;
  const name = formatRemote(remote.digest === undefined ? { ...remote, tag: wanted } : remote);
  const request = {
    method: "GET",
    target: `manifests/${wanted}`,
    headers: { Accept: acceptedTypes },
    expected: [200],
    missing: `no model ${name}`,
  } as const;
  const manifest = await registry
    .request(request, (answer) => readManifest(answer, name, remote.digest))
    .catch(async (error: unknown) => {
      const isMissing = error instanceof SconceError && error.code === "model_not_found";
      throw isMissing ? new SconceError(error.code, error.message + (await knownTags(registry))) : error;
    });
  return { manifest, name };
}

async function readManifest(answer: RegistryAnswer, name: string, digest: string | undefined): Promise<Uint8Array> {
  if (/html/.test(answer.headers.get("content-type") ?? "")) {
    throw new SconceError("registry_refused", `${name}: the host answers with a web page; it is not a registry`);
  }
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

const tagsSchema = z.looseObject({ tags: z.array(z.string()).nullable() });
limitFaults(tagsSchema, 0);

/**
 * The registry's tags as text for an error message about a missing tag, such as ` (tags: v1, v2)`; empty if the
 * registry lists none.
 */
async function knownTags(registry: Registry): Promise<string> {
  if (registry.remote.digest !== undefined) return "";
  const request = { method: "GET", target: "tags/list?n=10", expected: [200] } as const;
  try {
    const content = await registry.requestOnce(request, (answer) => boundedJson(answer.chunks(), maxManifestBytes));
    const tags = tagsSchema.parse(content).tags ?? [];
    return tags.length === 0 ? "" : ` ${oneLine(`(tags: ${tags.join(", ")})`)}`;
  } catch {
    return "";
  }
}
