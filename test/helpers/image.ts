/** Writes small OCI images, and reads images of an OCI layout. */
import { readFileSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { z } from "zod";
import { thisArchitecture } from "../../src/base/platform-package.ts";
import type { ImageProgram } from "../../src/package/image/contents.ts";
import { type ImageOptions, type WrittenImage, writeImage } from "../../src/package/image/image.ts";
import { imagePlatform } from "../../src/package/image/image-config.ts";
import { openImages } from "../../src/package/image/layout.ts";
import { runtimeLibraries } from "../../src/package/image/runtime-libraries.ts";
import { Blobs } from "../../src/package/store/blobs.ts";
import { IndexFile } from "../../src/package/store/index-file.ts";
import { annotations } from "../../src/package/store/manifest.ts";
import { ModelStore } from "../../src/package/store/store.ts";

export const platform = imagePlatform(thisArchitecture());

/** A system program of this machine, with a small library. */
export async function smallProgram(name = "true"): Promise<ImageProgram> {
  const executable = await realpath(Bun.which(name) ?? "");
  const [library] = await runtimeLibraries([{ name, path: executable }]);
  const libraries = [{ name: "libsmall.so", path: library?.source ?? "" }];
  return { arch: thisArchitecture(), executable, libraries };
}

/** Writes an image with a model of a store and a small program. */
export async function smallImage(
  folder: string,
  { home, reference, ...change }: { home: string; reference: string } & Partial<Omit<ImageOptions, "model" | "home">>,
): Promise<WrittenImage> {
  return writeImage(openImages(folder), {
    model: await new ModelStore(home).resolve(reference),
    home,
    programs: [await smallProgram()],
    name: reference,
    ...change,
  });
}

const descriptorSchema = z.looseObject({ mediaType: z.string(), digest: z.string(), size: z.int() });
const manifestSchema = z.looseObject({ config: descriptorSchema, layers: z.array(descriptorSchema) });
const configSchema = z.looseObject({
  config: z.looseObject({}),
  rootfs: z.looseObject({ type: z.literal("layers"), diff_ids: z.array(z.string()) }),
});

export interface ReadImage {
  readonly digest: string;
  readonly manifest: z.infer<typeof manifestSchema>;
  readonly config: z.infer<typeof configSchema>;
}

/** Reads the image with this name from the OCI layout in `folder`. */
export function readImage(folder: string, name: string): ReadImage {
  const { descriptors } = IndexFile.read(folder);
  const descriptor = descriptors.find((each) => each.annotations?.[annotations.refName] === name);
  if (descriptor === undefined) throw new Error(`no image ${name} in ${folder}`);
  const read = (digest: string): unknown => JSON.parse(readFileSync(new Blobs(folder).path(digest), "utf8"));
  const manifest = manifestSchema.parse(read(descriptor.digest));
  return { digest: descriptor.digest, manifest, config: configSchema.parse(read(manifest.config.digest)) };
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
  for (const { digest } of manifest.layers) await Bun.$`tar -xpzf ${new Blobs(folder).path(digest)} -C ${into}`.quiet();
}
