/** Lists the files of a model's container image: for each layer, a function that returns tar entries. */
import { basename } from "node:path";
import type { Architecture } from "../../base/platform-package.ts";
import { Blobs } from "../store/blobs.ts";
import { annotations, mediaTypes, ociLayout } from "../store/manifest.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { generatedTag } from "../store/reference.ts";
import type { RuntimeLibrary } from "./runtime-libraries.ts";
import type { TarEntry } from "./tar.ts";

/** The server's executable, and the libraries that it loads from the folder `lib` beside it. */
export interface ImageProgram {
  readonly arch: Architecture;
  readonly executable: string;
  readonly libraries: readonly { readonly name: string; readonly path: string }[];
}

/** The unprivileged user of the container. Distroless images use the same number. */
export const containerUser = { name: "sconce", uid: 65532, gid: 65532, home: "/home/sconce" } as const;

const programFolder = "opt/sconce";
export const entrypoint = `/${programFolder}/server`;

/** Tar entries of the lowest layer: system libraries, a user and writable folders. There is no shell. */
export function runtimeEntries(libraries: readonly RuntimeLibrary[]): TarEntry[] {
  const { name, uid, gid, home } = containerUser;
  const text = (path: string, lines: readonly string[]): TarEntry => ({
    kind: "file",
    path,
    mode: 0o644,
    source: new TextEncoder().encode(lines.map((line) => `${line}\n`).join("")),
  });
  return [
    text("etc/passwd", [
      "root:x:0:0:root:/root:/sbin/nologin",
      `${name}:x:${uid}:${gid}:${name}:${home}:/sbin/nologin`,
    ]),
    text("etc/group", ["root:x:0:", `${name}:x:${gid}:`]),
    text("etc/nsswitch.conf", ["passwd: files", "group: files", "hosts: files dns"]),
    { kind: "folder", path: home.slice(1), mode: 0o755, uid, gid },
    { kind: "folder", path: "root", mode: 0o700 },
    { kind: "folder", path: "tmp", mode: 0o1777 },
    ...libraries.map(({ path, source }): TarEntry => ({ kind: "file", path: path.slice(1), mode: 0o755, source })),
  ];
}

export function programEntries({ executable, libraries }: ImageProgram): TarEntry[] {
  const file = (path: string, source: string): TarEntry => ({
    kind: "file",
    path: `${programFolder}/${path}`,
    mode: 0o755,
    source,
  });
  return [file(basename(entrypoint), executable), ...libraries.map(({ name, path }) => file(`lib/${name}`, path))];
}

/**
 * Tar entries of a model store that contains only this model. Build time and tag are left out, so that equal models
 * give equal layers.
 * @param home folder of the store that contains the model
 */
export function modelEntries(model: PackagedModel, home: string): TarEntry[] {
  const blobs = new Blobs(home);
  const folder = `${programFolder}/model`;
  const text = (path: string, content: string): TarEntry => ({
    kind: "file",
    path: `${folder}/${path}`,
    mode: 0o644,
    source: new TextEncoder().encode(content),
  });
  const digests = new Set([model.digest, model.manifest.config.digest, ...model.layers.map(({ digest }) => digest)]);
  return [
    text("oci-layout", ociLayout),
    text("index.json", `${JSON.stringify(indexOf(model, blobs), null, 2)}\n`),
    ...[...digests].map(
      (digest): TarEntry => ({
        kind: "file",
        path: `${folder}/blobs/sha256/${digest.slice("sha256:".length)}`,
        mode: 0o644,
        source: blobs.path(digest),
      }),
    ),
  ];
}

function indexOf({ repository, digest }: PackagedModel, blobs: Blobs): unknown {
  const model = {
    mediaType: mediaTypes.manifest,
    artifactType: mediaTypes.model,
    digest,
    size: Bun.file(blobs.path(digest)).size,
    annotations: { [annotations.refName]: `${repository}:${generatedTag(digest)}` },
  };
  return { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [model] };
}
