import { annotations } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { generatedTag } from "../store/reference.ts";
import type { BaseImage } from "./base-image.ts";
import { containerUser, entrypoint } from "./contents.ts";
import type { Platform } from "./platform.ts";

export interface ImageConfigOptions {
  readonly model: PackagedModel;
  readonly platform: Platform;
  readonly base: BaseImage | undefined;
  /** Layers above the base image, the lowest first. `diffId` is the digest of the uncompressed layer. */
  readonly layers: readonly { readonly diffId: string; readonly title: string }[];
  /** Creation time of the image, in seconds since 1970. */
  readonly seconds: number;
}

const port = 3000;

/** Environment variables of the container. Variables of the base image override `general`, never `own`. */
const variables = {
  own: { SCONCE_HOST: "0.0.0.0", SCONCE_PORT: String(port) },
  general: { PATH: "/opt/sconce:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
} as const;

/**
 * The OCI image config. Keeps the base image's settings, except command, entrypoint, health check, stop signal and a
 * root user.
 */
export function imageConfig({ model, platform, base, layers, seconds }: ImageConfigOptions): Record<string, unknown> {
  const created = new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
  const { Cmd: _, Entrypoint: __, Healthcheck: ___, ...inherited } = base?.execution ?? {};
  return {
    created,
    ...platform,
    config: {
      ...inherited,
      User: userOf(base),
      ExposedPorts: { ...inherited.ExposedPorts, [`${port}/tcp`]: {} },
      Env: environment(inherited.Env ?? [], base === undefined),
      Entrypoint: [entrypoint],
      WorkingDir: inherited.WorkingDir || (base === undefined ? containerUser.home : "/"),
      Labels: { ...inherited.Labels, ...imageLabels(model) },
      StopSignal: "SIGTERM",
    },
    rootfs: {
      type: "layers",
      diff_ids: [...(base?.config.rootfs.diff_ids ?? []), ...layers.map(({ diffId }) => diffId)],
    },
    history: [
      ...(base?.config.history ?? []),
      ...layers.map(({ title }) => ({ created, created_by: `sconce image: ${title}` })),
    ],
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

/** The base image's user. For root, or without a base image: the unprivileged user `sconce`. */
function userOf(base: BaseImage | undefined): string {
  const user = base?.execution.User ?? "";
  return /^(root|0)?(:|$)/.test(user) ? `${containerUser.uid}:${containerUser.gid}` : user;
}

function environment(inherited: readonly string[], hasHome: boolean): string[] {
  const set = new Map<string, string>(
    Object.entries({ ...variables.general, ...(hasHome ? { HOME: containerUser.home } : {}) }),
  );
  for (const each of inherited) {
    const [name = "", ...value] = each.split("=");
    set.set(name, value.join("="));
  }
  for (const [name, value] of Object.entries(variables.own)) set.set(name, value);
  return [...set].map(([name, value]) => `${name}=${value}`);
}
