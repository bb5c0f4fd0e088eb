/**
 * Downloads a model's blobs from a registry to temporary files. Checks digests and schemas, because a registry is not
 * trusted.
 */
import { readFile } from "node:fs/promises";
import { SconceError } from "../../base/errors.ts";
import { inParallel } from "../../base/parallel.ts";
import { type BlobRef, type Blobs, digestOf, type StagedBlob } from "./blobs.ts";
import { annotations, isForWorkers, type Manifest, mediaTypes } from "./manifest.ts";
import type { StagedPackage } from "./packaging.ts";
import { PartialBlob } from "./partial-blob.ts";
import { maxJsonBytes, parseConfig, parseManifest } from "./read-model.ts";

/** Progress of a pull or push, over all its blobs. */
export interface ReceiveProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface ReceiveOptions {
  readonly repository: string;
  /** Tags for the model. The tag made from the digest is added. */
  readonly tags: readonly string[];
  /** The repository from which the model comes, as `host/repository`. */
  readonly source: string;
  /** The model's name for error messages. */
  readonly name: string;
  /** Bytes of the manifest. The caller has checked their digest, if the user named one. */
  readonly manifest: Uint8Array;
  /** Whether to skip weights and other layers that a process without a model (`--role front`) does not need. */
  readonly withoutWeights?: boolean;
  /** Number of concurrent downloads. */
  readonly atOnce: number;
  /** Downloads the missing bytes of a blob. Calls `onProgress` after each chunk. */
  fill(partial: PartialBlob, context: { readonly signal: AbortSignal; onProgress(): void }): Promise<void>;
  readonly onProgress?: ((progress: ReceiveProgress) => void) | undefined;
  readonly signal: AbortSignal;
}

/**
 * Parses and validates the manifest that a registry sent.
 * @throws SconceError `model_invalid` when it is not the manifest of a sconce model
 */
function parseReceived(bytes: Uint8Array, name: string): Manifest {
  const manifest = parseManifest(bytes, name);
  const bundles = manifest.layers.filter(({ mediaType }) => mediaType === mediaTypes.bundle);
  if (bundles.length !== 1) {
    throw invalid(`${name} has ${bundles.length} layers of type ${mediaTypes.bundle}; expected 1`);
  }
  const sizes = new Map<string, number>();
  for (const { digest, size } of [manifest.config, ...manifest.layers]) {
    if ((sizes.get(digest) ?? size) !== size) throw invalid(`${name} gives blob ${digest} two sizes`);
    sizes.set(digest, size);
  }
  if (manifest.config.size > maxJsonBytes) {
    throw invalid(`${name} has a config of ${manifest.config.size} bytes; expected JSON of a few kilobytes`);
  }
  return manifest;
}

/** Number of bytes that a pull must download. @throws SconceError `model_invalid` */
export function missingBytes(blobs: Blobs, options: ReceiveOptions): number {
  const manifest = parseReceived(options.manifest, options.name);
  const sizes = new Map([manifest.config, ...wantedLayers(manifest, options)].map((blob) => [blob.digest, blob.size]));
  return [...sizes].reduce((sum, [digest, size]) => sum + (blobs.has({ digest, size }) ? 0 : size), 0);
}

/**
 * Downloads the blobs of a model to `folder`. A blob in the store is only verified.
 * @param reuse false downloads even blobs that the store has
 * @throws SconceError `registry_corrupt`, `model_invalid`, errors of `fill`, or the signal's reason
 */
export async function stageReceived(
  blobs: Blobs,
  options: ReceiveOptions,
  { folder, reuse }: { folder: string; reuse: boolean },
): Promise<StagedPackage> {
  const manifest = parseReceived(options.manifest, options.name);
  const byDigest = Map.groupBy(wantedLayers(manifest, options), ({ digest }) => digest);
  byDigest.delete(manifest.config.digest);
  const layers = [...byDigest.values()].flatMap(([layer]) => layer ?? []);
  const tally = new Tally([manifest.config, ...layers], options.onProgress);
  const staged: StagedBlob[] = [];
  const receive = async (blob: BlobRef, title: string, signal: AbortSignal) => {
    const onProgress = (doneBytes: number) => tally.set(blob, doneBytes);
    const isStored = reuse && (await blobs.isIntact(blob, { signal, onProgress }));
    staged.push(isStored ? blob : await receiveBlob(blob, { folder, title, options, signal, onProgress }));
  };
  // Downloads the config first, because large layers are useless if this version of sconce cannot read the config.
  await receive(manifest.config, "its config", options.signal);
  const config = staged.at(-1);
  const path = config?.stagedPath ?? blobs.path(manifest.config.digest);
  parseConfig(await readFile(path), options.name);
  await inParallel(layers, { atOnce: options.atOnce, signal: options.signal }, (layer, signal) =>
    receive({ digest: layer.digest, size: layer.size }, layer.annotations[annotations.title], signal),
  );
  const named = { digest: digestOf(options.manifest), size: options.manifest.length };
  staged.push(await blobs.stage(options.manifest, folder, { reuse }));
  return { manifest: named, blobs: staged };
}

function wantedLayers({ layers }: Manifest, { withoutWeights = false }: ReceiveOptions): Manifest["layers"] {
  return withoutWeights ? layers.filter((layer) => !isForWorkers(layer)) : layers;
}

interface BlobContext {
  readonly folder: string;
  /** The blob's name for error messages. */
  readonly title: string;
  readonly options: ReceiveOptions;
  readonly signal: AbortSignal;
  readonly onProgress: (doneBytes: number) => void;
}

async function receiveBlob(blob: BlobRef, { folder, title, options, signal, onProgress }: BlobContext) {
  await using partial = await PartialBlob.open(blob, folder);
  await options.fill(partial, { signal, onProgress: () => onProgress(partial.doneBytes) });
  const staged = await partial.finish();
  if (staged !== undefined) return staged;
  throw new SconceError(
    "registry_corrupt",
    `${title} of ${options.name} does not match its digest ${blob.digest}; the received bytes were deleted. Pull again; if that does not help, push the model again`,
  );
}

/** Sums the transferred bytes of all blobs, and reports the sum. */
export class Tally {
  readonly #done = new Map<string, number>();
  readonly #totalBytes: number;
  readonly #onProgress: ReceiveOptions["onProgress"];

  constructor(blobs: readonly BlobRef[], onProgress: ReceiveOptions["onProgress"]) {
    this.#totalBytes = blobs.reduce((bytes, { size }) => bytes + size, 0);
    this.#onProgress = onProgress;
  }

  set({ digest }: BlobRef, doneBytes: number): void {
    this.#done.set(digest, doneBytes);
    const sum = this.#done.values().reduce((bytes, each) => bytes + each, 0);
    this.#onProgress?.({ doneBytes: sum, totalBytes: this.#totalBytes });
  }
}

function invalid(message: string): SconceError {
  return new SconceError("model_invalid", message);
}
