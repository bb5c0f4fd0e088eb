/** Writes small OCI images and base images, and reads images of an OCI layout. */
import { realpath } from "node:fs/promises";
import { z } from "zod";
import { type ImageConfig, type ImageManifest, refNameKey } from "../../src/package/image/documents.ts";
import { type ImageOptions, type WrittenImage, writeImage } from "../../src/package/image/image.ts";
import { layerDescriptor, stageLayer } from "../../src/package/image/layer.ts";
import { ImageLayout } from "../../src/package/image/layout.ts";
import { imagePlatform } from "../../src/package/image/platform.ts";
import { runtimeLibraries } from "../../src/package/image/runtime-libraries.ts";
import { ModelStore } from "../../src/package/store/store.ts";

export const platform = imagePlatform();

/** Writes an image with a model of a store, `/usr/bin/true` as its program, and a small library. */
export async function smallImage(
  folder: string,
  { home, reference, ...change }: { home: string; reference: string } & Partial<Omit<ImageOptions, "model" | "home">>,
): Promise<WrittenImage> {
  const executable = await realpath(Bun.which("true") ?? "");
  const [library] = await runtimeLibraries([{ name: "true", path: executable }]);
  return writeImage(ImageLayout.openOrCreate(folder), {
    model: await new ModelStore(home).resolve(reference),
    home,
    program: { executable, libraries: [{ name: "libsmall.so", path: library?.source ?? "" }] },
    platform,
    name: reference,
    seconds: 0,
    ...change,
  });
}

export interface BaseOptions {
  readonly name?: string;
  /** Content of the file `/etc/base` in the only layer. */
  readonly text?: string;
  readonly architecture?: string;
  readonly execution?: Readonly<Record<string, unknown>>;
}

/** Writes a base image with one layer, in the format that other tools write. */
export async function writeBase(folder: string, options: BaseOptions = {}): Promise<{ digest: string }> {
  const { name = "base", text = "a base", architecture = platform.architecture, execution = {} } = options;
  const layout = ImageLayout.openOrCreate(folder);
  using workspace = layout.openWorkspace();
  const source = new TextEncoder().encode(text);
  const entries = [{ kind: "file", path: "etc/base", mode: 0o644, source }] as const;
  const layer = await stageLayer({ title: "base", entries, mtime: 1 }, workspace.folder, {});
  const stage = (content: unknown) =>
    layout.blobs.stage(new TextEncoder().encode(JSON.stringify(content)), workspace.folder, { reuse: true });
  const config = await stage({
    created: "2001-02-03T04:05:06Z",
    architecture,
    os: "linux",
    config: execution,
    rootfs: { type: "layers", diff_ids: [layer.diffId] },
    history: [{ created_by: "base" }],
  });
  const type = "application/vnd.oci.image";
  const manifest = await stage({
    schemaVersion: 2,
    mediaType: `${type}.manifest.v1+json`,
    config: { mediaType: `${type}.config.v1+json`, digest: config.digest, size: config.size },
    layers: [layerDescriptor(layer)],
  });
  const { digest, size } = manifest;
  const descriptor = { mediaType: `${type}.manifest.v1+json`, digest, size };
  layout.commit({ name, manifest: descriptor, blobs: [layer, config, manifest] }, workspace);
  return { digest };
}

export interface ReadImage {
  readonly digest: string;
  readonly manifest: ImageManifest;
  readonly config: ImageConfig;
}

/** Reads the image with this name from the OCI layout in `folder`. */
export function readImage(folder: string, name: string): ReadImage {
  const layout = ImageLayout.open(folder);
  const descriptor = layout.index().manifests.find(({ annotations }) => annotations?.[refNameKey] === name);
  if (descriptor === undefined) throw new Error(`no image ${name} in ${folder}`);
  return { digest: descriptor.digest, ...layout.image(descriptor) };
}

const startSchema = z.looseObject({
  User: z.string().regex(/^\d+:\d+$/),
  Env: z.array(z.string()),
  Entrypoint: z.array(z.string()),
  WorkingDir: z.string(),
});

/** How a container starts from the image: command, user, environment and working folder. */
export function startOf({ config }: ReadImage) {
  const { User, Env, Entrypoint, WorkingDir } = startSchema.parse(config.config);
  const [uid = 0, gid = 0] = User.split(":").map(Number);
  const env = Object.fromEntries(Env.map((each) => [each.split("=")[0] ?? "", each.split("=").slice(1).join("=")]));
  return { command: Entrypoint, options: { user: { uid, gid }, env, cwd: WorkingDir } };
}

/** Unpacks all layers of an image, in order, into a folder. */
export async function unpackImage(folder: string, { manifest }: ReadImage, into: string): Promise<void> {
  const layout = ImageLayout.open(folder);
  for (const { digest } of manifest.layers) await Bun.$`tar -xpzf ${layout.blobs.path(digest)} -C ${into}`.quiet();
}
