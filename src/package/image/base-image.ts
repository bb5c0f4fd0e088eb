/** Opens a base image, on which a container image of a model is built. */
import { existsSync } from "node:fs";
import { SconceError } from "../../base/errors.ts";
import type { StagedBlob } from "../store/blobs.ts";
import { mediaTypes } from "../store/manifest.ts";
import { type Descriptor, type Execution, refNameKey } from "./documents.ts";
import { type FoundImage, ImageLayout } from "./layout.ts";
import type { Platform } from "./platform.ts";

export interface BaseImage extends FoundImage {
  readonly layout: ImageLayout;
  readonly execution: Execution;
}

/**
 * Finds the base image for a platform.
 * @param given `DIR` of an OCI layout, or `DIR:REF`; without REF the layout must contain one image for the platform
 * @throws SconceError `usage` when there is no such layout, reference or platform, `image_invalid` when the layout is
 * damaged
 */
export function openBase(given: string, platform: Platform): BaseImage {
  const { folder, name } = split(given);
  const layout = ImageLayout.open(folder);
  const found = layout.image(choose(layout, folder, name, platform));
  const { architecture, os } = found.config;
  if (architecture !== platform.architecture || os !== platform.os) {
    throw new SconceError(
      "usage",
      `the base image ${given} is for ${os}/${architecture}; expected ${platform.os}/${platform.architecture}, the platform of this machine's libraries`,
    );
  }
  return { ...found, layout, execution: found.config.config ?? {} };
}

/**
 * Copies the base image's layers that `target` lacks to temporary files in `folder`, and checks all digests.
 * @throws SconceError `image_invalid` for a missing or damaged layer
 */
export async function stageBase(
  base: BaseImage,
  target: ImageLayout,
  folder: string,
  onProgress?: (step: { title: string; doneBytes: number; totalBytes: number }) => void,
): Promise<StagedBlob[]> {
  const staged: StagedBlob[] = [];
  for (const { digest, size } of base.manifest.layers) {
    if (!base.layout.blobs.has({ digest, size })) throw damaged(base, digest);
    const blob = await target.blobs.stage(base.layout.blobs.path(digest), folder, {
      reuse: true,
      onProgress: (doneBytes, totalBytes) => onProgress?.({ title: "the base image", doneBytes, totalBytes }),
    });
    if (blob.digest !== digest) throw damaged(base, digest);
    staged.push(blob);
  }
  return staged;
}

/**
 * Splits `DIR:REF` at the first colon before which there is an existing folder, because folder names may contain
 * colons.
 */
function split(given: string): { folder: string; name: string | undefined } {
  if (existsSync(given)) return { folder: given, name: undefined };
  for (let at = given.indexOf(":"); at > 0; at = given.indexOf(":", at + 1)) {
    if (existsSync(given.slice(0, at))) return { folder: given.slice(0, at), name: given.slice(at + 1) };
  }
  throw new SconceError("usage", `there is no folder ${given}; expected an OCI image layout, as DIR or DIR:REF`);
}

function choose(layout: ImageLayout, folder: string, name: string | undefined, platform: Platform): Descriptor {
  const all = layout.index().manifests;
  const names = all.flatMap(({ annotations }) => annotations?.[refNameKey] ?? []);
  const found = name === undefined ? all : all.filter(({ annotations }) => annotations?.[refNameKey] === name);
  const fitting = found.length > 1 ? found.filter((one) => fits(one, platform)) : found;
  const [only, ...more] = fitting;
  if (only === undefined || more.length > 0) {
    const count =
      all.length === 0
        ? "no image"
        : name === undefined
          ? `${all.length} images`
          : `no single image ${JSON.stringify(name)}`;
    const known = names.length === 0 ? "" : `; give one of ${names.map((each) => `${folder}:${each}`).join(", ")}`;
    throw new SconceError("usage", `the image layout ${folder} has ${count}${known}`);
  }
  if (only.mediaType === mediaTypes.manifest) return only;
  if (only.mediaType !== mediaTypes.index) {
    throw new SconceError(
      "usage",
      `the base image in ${folder} is a ${only.mediaType}; expected ${mediaTypes.manifest}`,
    );
  }
  const manifests = layout.indexAt(only).manifests;
  const own = manifests.find((one) => fits(one, platform));
  if (own !== undefined) return own;
  const platforms = manifests.map((one) => `${one.platform?.os}/${one.platform?.architecture}`).join(", ");
  throw new SconceError(
    "usage",
    `the base image in ${folder} is for ${platforms}; expected ${platform.os}/${platform.architecture}`,
  );
}

function fits({ platform }: Descriptor, { os, architecture }: Platform): boolean {
  return platform === undefined || (platform.os === os && platform.architecture === architecture);
}

function damaged({ layout }: BaseImage, digest: string): SconceError {
  return new SconceError(
    "image_invalid",
    `the image layout ${layout.folder} is damaged: the layer ${digest} is missing or has other bytes`,
  );
}
