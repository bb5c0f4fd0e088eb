/** The OCI config of a container image, and its platform. */
import { type Architecture, ociArchitecture } from "../../base/platform-package.ts";
import { annotations } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { generatedTag } from "../store/reference.ts";
import { containerUser, entrypoint } from "./contents.ts";

export interface Platform {
  readonly os: "linux";
  /** Processor architecture, as Go spells it. */
  readonly architecture: "amd64" | "arm64";
}

/** The platform of an architecture. */
export function imagePlatform(arch: Architecture): Platform {
  return { os: "linux", architecture: ociArchitecture(arch) };
}

export interface ImageConfigOptions {
  readonly model: PackagedModel;
  readonly platform: Platform;
  /** Layers, the lowest first. `diffId` is the digest of the uncompressed layer. */
  readonly layers: readonly { readonly diffId: string; readonly title: string }[];
}

const port = 3000;
/** The same time in every image, so that equal content gives equal bytes. */
const created = "1970-01-01T00:00:00Z";

/** Environment variables of the container. */
const variables = {
  PATH: "/opt/sconce:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: containerUser.home,
  SCONCE_HOST: "0.0.0.0",
  SCONCE_PORT: String(port),
} as const;

/** The OCI image config. */
export function imageConfig({ model, platform, layers }: ImageConfigOptions): Record<string, unknown> {
  return {
    created,
    ...platform,
    config: {
      User: `${containerUser.uid}:${containerUser.gid}`,
      ExposedPorts: { [`${port}/tcp`]: {} },
      Env: Object.entries(variables).map(([name, value]) => `${name}=${value}`),
      Entrypoint: [entrypoint],
      WorkingDir: containerUser.home,
      Labels: imageLabels(model),
      StopSignal: "SIGTERM",
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ title }) => ({ created, created_by: `sconce image: ${title}` })),
  };
}

/** Labels of the image config. The image's manifest has the same texts as annotations. */
export function imageLabels(model: PackagedModel): Record<string, string> {
  const { description } = model.config;
  return {
    [annotations.title]: model.repository,
    "org.opencontainers.image.version": generatedTag(model.digest),
    ...(description === undefined ? {} : { "org.opencontainers.image.description": description }),
    "sconce.model.digest": model.digest,
  };
}
