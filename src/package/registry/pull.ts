/** Copies a model from a registry into the store. */
import { z } from "zod";
import { limitFaults } from "../../author/fault-limit.ts";
import { oneLine, SconceError } from "../../base/errors.ts";
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
  /** What the model is called in the store. */
  readonly repository: string;
  readonly tags: readonly string[];
  /** Leaves out what a front does not need. */
  readonly withoutWeights?: boolean;
  /** Of the model that the store has by that name, complete: when the registry has no other one, nothing is done. */
  readonly held?: string | undefined;
  readonly onProgress?: (progress: ReceiveProgress) => void;
}

export interface PullResult extends PutResult {
  /** How many bytes of blobs came from the registry. */
  readonly receivedBytes: number;
}

/** As many as the distribution spec has registries take. */
const maxManifestBytes = 4 * 1024 * 1024;
const blobsAtOnce = 3;

/** What a registry may answer with; a manifest of another kind is named in the message that refuses it. */
const accepted = [
  mediaTypes.manifest,
  mediaTypes.index,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

/**
 * @throws SconceError `model_not_found`, `model_invalid`, `registry_…` as `Registry.ask`, `registry_corrupt`; then the store's
 * index is as it was
 */
export async function pull(options: PullOptions): Promise<PullResult> {
  const { registry, store, repository, tags, withoutWeights = false, held, onProgress } = options;
  const { manifest, name } = await fetchManifest(registry);
  let receivedBytes = 0;
  if (held !== undefined && held === digestOf(manifest)) {
    const tag = generatedTag(held);
    return { digest: held, tag, reference: `${repository}:${tag}`, receivedBytes };
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
    headers: { Accept: accepted },
    expected: [200],
    missing: `no model ${name}`,
  } as const;
  const manifest = await registry
    .ask(request, (answer) => readManifest(answer, name, remote.digest))
    .catch(async (error: unknown) => {
      const isMissing = error instanceof SconceError && error.code === "model_not_found";
      throw isMissing ? new SconceError(error.code, error.message + (await knownTags(registry))) : error;
    });
  return { manifest, name };
}

async function readManifest(answer: RegistryAnswer, name: string, digest: string | undefined): Promise<Uint8Array> {
  if (/html/.test(answer.headers.get("content-type") ?? "")) {
    throw new SconceError("registry_refused", `${name}: its host answers with a web page; it is not a registry`);
  }
  const manifest = await boundedBytes(answer.chunks(), maxManifestBytes);
  if (manifest === undefined) {
    throw new SconceError("model_invalid", `the manifest of ${name} has more than ${maxManifestBytes} bytes`);
  }
  const found = digestOf(manifest);
  const promised = digest ?? answer.headers.get("docker-content-digest") ?? found;
  if (promised === found) return manifest;
  throw new SconceError(
    "registry_corrupt",
    `the manifest of ${name} came with the digest ${found}; expected ${oneLine(promised)}. Pull again; if that does not help, push the model anew`,
  );
}

const tagsSchema = z.looseObject({ tags: z.array(z.string()).nullable() });
limitFaults(tagsSchema, 0);

/** What there is instead, where the registry says it. */
async function knownTags(registry: Registry): Promise<string> {
  if (registry.remote.digest !== undefined) return "";
  const request = { method: "GET", target: "tags/list?n=10", expected: [200] } as const;
  try {
    const content = await registry.askOnce(request, (answer) => boundedJson(answer.chunks(), maxManifestBytes));
    const tags = tagsSchema.parse(content).tags ?? [];
    return tags.length === 0 ? "" : ` ${oneLine(`(tags: ${tags.join(", ")})`)}`;
  } catch {
    return "";
  }
}
