/** Writes the container image of a model and its server into an OCI layout. Needs no container engine. */
import { SconceError } from "../../base/errors.ts";
import type { StagedBlob } from "../store/blobs.ts";
import type { Layout } from "../store/layout.ts";
import { mediaTypes } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { type ImageProgram, modelEntries, programEntries, runtimeEntries } from "./contents.ts";
import { imageConfig, imageLabels, type Platform } from "./image-config.ts";
import { type LayerFiles, type LayerOptions, stageLayer } from "./layer.ts";
import { runtimeLibraries } from "./runtime-libraries.ts";

export interface ImageOptions extends LayerOptions {
  readonly model: PackagedModel;
  /** Folder of the store that contains the model. */
  readonly home: string;
  readonly program: ImageProgram;
  readonly platform: Platform;
  /** Name of the image in the OCI layout's index.json. */
  readonly name: string;
}

export interface WrittenLayer {
  readonly title: string;
  readonly digest: string;
  /** Compressed size of the layer in bytes. */
  readonly size: number;
  /** Whether the OCI layout already contained the layer. */
  readonly isShared: boolean;
}

export interface WrittenImage {
  readonly digest: string;
  readonly layers: readonly WrittenLayer[];
}

const layerType = "application/vnd.oci.image.layer.v1.tar+gzip";
const configType = "application/vnd.oci.image.config.v1+json";

/**
 * Adds the image to the layout, or replaces the image with the same name. Equal options
 * give equal bytes. Safe against kills at any moment and against concurrent runs.
 * @throws SconceError `image_invalid` when a file is missing or changes while it is read
 */
export async function writeImage(layout: Layout, options: ImageOptions): Promise<WrittenImage> {
  const { model, platform, name } = options;
  using workspace = layout.openWorkspace();
  const staged: StagedBlob[] = [];
  const stageJson = async (content: unknown, mediaType: string) => {
    const bytes = new TextEncoder().encode(JSON.stringify(content));
    const blob = await layout.blobs.stage(bytes, workspace.path, { reuse: true });
    staged.push(blob);
    return { mediaType, digest: blob.digest, size: blob.size };
  };
  const layers: (WrittenLayer & { readonly diffId: string })[] = [];
  for (const files of await layersOf(options)) {
    const blob = await stageLayer(files, workspace.path, options);
    staged.push(blob);
    const { digest, size, diffId } = blob;
    layers.push({ title: files.title, digest, size, diffId, isShared: layout.blobs.has(blob) });
  }
  const config = await stageJson(imageConfig({ model, platform, layers }), configType);
  const content = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config,
    layers: layers.map(({ digest, size }) => ({ mediaType: layerType, digest, size })),
    annotations: imageLabels(model),
  };
  const manifest = await stageJson(content, mediaTypes.manifest);
  const isWritten = layout.commit({
    blobs: staged,
    change: (index) => index.point(name, { ...manifest, platform: { ...platform } }),
    collects: true,
  });
  if (isWritten) return { digest: manifest.digest, layers };
  throw new SconceError(
    "image_invalid",
    `a blob of ${name} was removed from ${layout.home} by another process; write the image again`,
  );
}

/**
 * The layers, the lowest first. Runtime libraries and server come before the model, so that images
 * of different models share them.
 */
async function layersOf({ model, home, program }: ImageOptions): Promise<LayerFiles[]> {
  const files = [{ name: "", path: program.executable }, ...program.libraries];
  return [
    { title: "runtime libraries", entries: runtimeEntries(await runtimeLibraries(files)) },
    { title: "libtorch and server", entries: programEntries(program) },
    { title: "model", entries: modelEntries(model, home) },
  ];
}
