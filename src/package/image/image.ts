/** Writes the container image of a model and its server into an OCI layout. Needs no container engine. */
import type { StagedBlob } from "../store/blobs.ts";
import { mediaTypes } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { type ImageProgram, modelEntries, programEntries, runtimeEntries } from "./contents.ts";
import { type Descriptor, imageConfigType } from "./documents.ts";
import { imageConfig, imageLabels } from "./image-config.ts";
import { type LayerFiles, type LayerOptions, layerDescriptor, stageLayer } from "./layer.ts";
import type { ImageLayout } from "./layout.ts";
import type { Platform } from "./platform.ts";
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

/**
 * Adds the image to the layout, or replaces the image with the same name. Equal options
 * give equal bytes. Safe against kills at any moment and against concurrent runs.
 * @throws SconceError `image_invalid` when a file is missing or changes while it is read
 */
export async function writeImage(layout: ImageLayout, options: ImageOptions): Promise<WrittenImage> {
  const { model, platform } = options;
  using workspace = layout.openWorkspace();
  const staged: StagedBlob[] = [];
  const stageJson = async (content: unknown, mediaType: string): Promise<Descriptor> => {
    const bytes = new TextEncoder().encode(JSON.stringify(content));
    const blob = await layout.blobs.stage(bytes, workspace.folder, { reuse: true });
    staged.push(blob);
    return { mediaType, digest: blob.digest, size: blob.size };
  };
  const layers: { written: WrittenLayer; descriptor: Descriptor; diffId: string; title: string }[] = [];
  for (const files of await layersOf(options)) {
    const blob = await stageLayer(files, workspace.folder, options);
    staged.push(blob);
    const { title } = files;
    const { digest, size, diffId } = blob;
    layers.push({
      title,
      diffId,
      descriptor: layerDescriptor(blob),
      written: { title, digest, size, isShared: layout.blobs.has(blob) },
    });
  }
  const config = await stageJson(imageConfig({ model, platform, layers }), imageConfigType);
  const manifest = await stageJson(
    {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config,
      layers: layers.map(({ descriptor }) => descriptor),
      annotations: imageLabels(model),
    },
    mediaTypes.manifest,
  );
  const described = { ...manifest, platform: { ...platform } };
  layout.commit({ name: options.name, manifest: described, blobs: staged }, workspace);
  return { digest: manifest.digest, layers: layers.map(({ written }) => written) };
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
