/** Writes the container image of a model and its server into an OCI layout. Needs no container engine. */
import { SconceError } from "../../base/errors.ts";
import type { StagedBlob } from "../store/blobs.ts";
import type { Layout } from "../store/layout.ts";
import { mediaTypes } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { type ImageProgram, modelEntries, programEntries, runtimeEntries } from "./contents.ts";
import { imageConfig, imageLabels, imagePlatform } from "./image-config.ts";
import { type LayerFiles, stageLayer } from "./layer.ts";
import { foreignRuntimeLibraries, runtimeLibraries } from "./runtime-libraries.ts";

export interface ImageOptions {
  readonly model: PackagedModel;
  /** Folder of the store that contains the model. */
  readonly home: string;
  /** The program for each platform of the image. */
  readonly programs: readonly ImageProgram[];
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
 * Adds the image to the layout, or replaces the image with the same name. The image of several platforms is an index
 * of images. Equal options give equal bytes. Safe against kills at any moment and against concurrent runs.
 * @throws SconceError `image_invalid` when a file is missing or changes while it is read
 */
export async function writeImage(layout: Layout, options: ImageOptions): Promise<WrittenImage> {
  const { model, programs, name } = options;
  using workspace = layout.openWorkspace();
  const staged: StagedBlob[] = [];
  const stageJson = async (content: unknown, mediaType: string) => {
    const bytes = new TextEncoder().encode(JSON.stringify(content));
    const blob = await layout.blobs.stage(bytes, workspace.path, { reuse: true });
    staged.push(blob);
    return { mediaType, digest: blob.digest, size: blob.size };
  };
  const written: WrittenLayer[] = [];
  const manifests = [];
  for (const program of programs) {
    const platform = imagePlatform(program.arch);
    const layers: (WrittenLayer & { readonly diffId: string })[] = [];
    for (const files of await layersOf(options, program)) {
      const blob = await stageLayer(files, workspace.path);
      const isShared = layout.blobs.has(blob) || staged.some(({ digest }) => digest === blob.digest);
      staged.push(blob);
      const { digest, size, diffId } = blob;
      layers.push({ title: files.title, digest, size, diffId, isShared });
    }
    const config = await stageJson(imageConfig({ model, platform, layers }), configType);
    const content = {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config,
      layers: layers.map(({ digest, size }) => ({ mediaType: layerType, digest, size })),
      annotations: imageLabels(model),
    };
    manifests.push({ ...(await stageJson(content, mediaTypes.manifest)), platform: { ...platform } });
    written.push(...layers);
  }
  const [only] = manifests;
  const image =
    only !== undefined && manifests.length === 1
      ? only
      : await stageJson({ schemaVersion: 2, mediaType: mediaTypes.index, manifests }, mediaTypes.index);
  const isWritten = layout.commit({
    blobs: staged,
    change: (index) => index.point(name, image),
    collects: true,
  });
  if (isWritten) return { digest: image.digest, layers: written };
  throw new SconceError(
    "image_invalid",
    `a blob of ${name} was removed from ${layout.home} by another process; write the image again`,
  );
}

/**
 * The layers, the lowest first. Runtime libraries and server come before the model, so that images
 * of different models share them.
 */
async function layersOf({ model, home }: ImageOptions, program: ImageProgram): Promise<LayerFiles[]> {
  const files = [{ name: "", path: program.executable }, ...program.libraries];
  const isOwn = program.arch === process.arch;
  const runtime = isOwn ? await runtimeLibraries(files) : foreignRuntimeLibraries(program.arch);
  return [
    { title: "runtime libraries", entries: runtimeEntries(runtime) },
    { title: "libtorch and server", entries: programEntries(program) },
    { title: "model", entries: modelEntries(model, home) },
  ];
}
