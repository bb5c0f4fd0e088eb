/** Takes a model from elsewhere, piece by piece: nothing of it is believed before its digest and its form are checked. */
import { readFile } from "node:fs/promises";
import { SconceError } from "../errors.ts";
import { inParallel } from "../parallel.ts";
import { type BlobRef, type Blobs, digestOf, type StagedBlob } from "./blobs.ts";
import { annotations, isForWorkers, type Manifest, mediaTypes } from "./manifest.ts";
import type { StagedPackage } from "./packaging.ts";
import { PartialBlob } from "./partial-blob.ts";
import { checkConfig, checkManifest, maxJsonBytes } from "./read-model.ts";

/** Of all blobs together. */
export interface ReceiveProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface ReceiveOptions {
  readonly repository: string;
  /** Tags beside the generated one. */
  readonly tags: readonly string[];
  /** `host/repository` that it comes from. */
  readonly source: string;
  /** What messages call the model. */
  readonly name: string;
  /** The bytes of the manifest, whose digest the caller has checked if it was asked for by one. */
  readonly manifest: Uint8Array;
  /** Leaves out what a front does not need. */
  readonly withoutWeights?: boolean;
  /** How many blobs may come at the same time. */
  readonly atOnce: number;
  /** Appends to the blob what it lacks; `onProgress` is to be called now and then. */
  fill(partial: PartialBlob, context: { readonly signal: AbortSignal; onProgress(): void }): Promise<void>;
  readonly onProgress?: ((progress: ReceiveProgress) => void) | undefined;
  readonly signal: AbortSignal;
}

/**
 * The manifest of a model that is received.
 *
 * @throws SconceError `model_invalid` when it is not a manifest of a sconce model
 */
function parseReceived(bytes: Uint8Array, name: string): Manifest {
  const manifest = checkManifest(parseJson(bytes, `the manifest of ${name}`), name);
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

/**
 * How many bytes are to be received yet, by what the manifest says.
 *
 * @param folder with what an earlier run left
 * @throws SconceError `model_invalid`
 */
export function missingBytes(blobs: Blobs, options: ReceiveOptions, folder: string): number {
  const manifest = parseReceived(options.manifest, options.name);
  const sizes = new Map([manifest.config, ...wantedLayers(manifest, options)].map((blob) => [blob.digest, blob.size]));
  return [...sizes]
    .filter(([digest, size]) => !blobs.has({ digest, size }))
    .reduce((sum, [digest, size]) => sum + Math.max(0, size - PartialBlob.sizeOf(digest, folder)), 0);
}

/**
 * Gets all blobs of a model into `folder`, going on with what is there; what the store has is read, and not received again.
 *
 * @param reuse whether blobs that the store has need no copy
 * @throws SconceError `registry_corrupt`, `model_invalid`, what `fill` throws, or the signal's reason
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
    // Reading it is cheaper than receiving it.
    const kept = reuse && (await blobs.isIntact(blob, { signal, onProgress }));
    staged.push(kept ? blob : await receiveBlob(blob, { folder, title, options, signal, onProgress }));
  };
  // The config first: a model that this version of sconce can't serve need not be received.
  await receive(manifest.config, "its config", options.signal);
  const config = staged.at(-1);
  const path = config?.stagedPath ?? blobs.path(manifest.config.digest);
  checkConfig(parseJson(await readFile(path), `the config of ${options.name}`), options.name);
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
  /** What messages call the blob. */
  readonly title: string;
  readonly options: ReceiveOptions;
  readonly signal: AbortSignal;
  readonly onProgress: (doneBytes: number) => void;
}

async function receiveBlob(blob: BlobRef, { folder, title, options, signal, onProgress }: BlobContext) {
  await using partial = await PartialBlob.open(blob, folder, signal);
  for (;;) {
    const context = { signal, onProgress: () => onProgress(partial.doneBytes) };
    context.onProgress();
    let failure: unknown;
    try {
      if (partial.doneBytes < blob.size) await options.fill(partial, context);
      context.onProgress();
      const staged = await partial.finish();
      if (staged) return staged;
    } catch (error) {
      if (!(error instanceof SconceError && error.code === "registry_corrupt")) throw error;
      failure = error;
    }
    // What an earlier run left may have been damaged since, by a machine that lost its power: then all of it is asked for again.
    const wasFound = partial.foundBytes > 0;
    await partial.restart();
    if (wasFound) continue;
    throw new SconceError(
      "registry_corrupt",
      `${title} of ${options.name} came with another content than its digest ${blob.digest} stands for; nothing of it was kept. Pull again; if that does not help, push the model anew`,
      { cause: failure },
    );
  }
}

/** How far all blobs together are. */
class Tally {
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

function parseJson(bytes: Uint8Array, what: string): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new SconceError("model_invalid", `${what} is not JSON`, { cause: error });
  }
}

function invalid(message: string): SconceError {
  return new SconceError("model_invalid", message);
}
