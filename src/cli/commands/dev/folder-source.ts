/**
 * Serves a folder without packaging. The bundle is in a temporary folder; all other files stay in the author's folder.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SconceError } from "../../../base/errors.ts";
import { type ModelSource, modelStore } from "../../../package/model-source.ts";
import { type ModelConfig, mediaTypes } from "../../../package/store/manifest.ts";
import { type PackagedLayer, PackagedModel } from "../../../package/store/packaged-model.ts";

/** Facts about the model that the server's processes need. */
interface Declared {
  readonly repository: string;
  readonly digest: string;
  readonly config: ModelConfig;
  readonly layers: readonly PackagedLayer[];
}

/** Arguments for server processes that read the model's declaration from `folder`. */
export function folderArgv(folder: string): string[] {
  return ["dev", folder];
}

/** The model source of a process with the command line `dev FOLDER`. @returns undefined for other commands */
export function folderSource([command, folder]: readonly string[]): ModelSource | undefined {
  if (command !== "dev" || folder === undefined) return undefined;
  const resolve = async (reference = "") => declaredModel(folder, reference);
  return { ...modelStore, resolve, verify: async () => ({}) };
}

/** Writes a model's declaration to a file in the folder. @returns the reference for `declaredModel` */
export function writeDeclared(folder: string, declared: Declared): string {
  writeFileSync(join(folder, fileOf(declared.digest)), JSON.stringify(declared));
  return `${declared.repository}@${declared.digest}`;
}

export function declaredModel(folder: string, reference: string): PackagedModel {
  const file = join(folder, fileOf(reference.slice(reference.lastIndexOf("@") + 1)));
  // The file needs no validation, because this program wrote it.
  const { repository, digest, config, layers }: Declared = JSON.parse(readFileSync(file, "utf8"));
  const bundle = layers[0];
  if (bundle === undefined) throw new SconceError("model_not_found", `${reference} has no code`);
  const size = layers.reduce((sum, layer) => sum + layer.size, 0);
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    artifactType: mediaTypes.model,
    config: { mediaType: mediaTypes.config, digest, size: 0 },
    layers: [],
  } as const;
  return new PackagedModel({
    repository,
    tag: "dev",
    digest,
    created: undefined,
    size,
    manifest: { ...manifest, layers: [] },
    config,
    layers,
  });
}

function fileOf(digest: string): string {
  return `${digest.slice("sha256:".length, "sha256:".length + 12)}.json`;
}
