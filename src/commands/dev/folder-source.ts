/** Models of a folder that is served without being packaged: their code lies in a folder for this run, their files where the author has them. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ModelSource, modelStore } from "../../command-line/model-source.ts";
import { SconceError } from "../../errors.ts";
import { type ModelConfig, mediaTypes } from "../../store/manifest.ts";
import { type PackagedLayer, PackagedModel } from "../../store/packaged-model.ts";

/** What the processes of the server are told of the model. */
interface Declared {
  readonly repository: string;
  readonly digest: string;
  readonly config: ModelConfig;
  readonly layers: readonly PackagedLayer[];
}

/** The command line for processes that take models from such a folder. */
export function folderArgv(folder: string): string[] {
  return ["dev", folder];
}

/** @returns undefined for the command line of another command */
export function folderSource([command, folder]: readonly string[]): ModelSource | undefined {
  if (command !== "dev" || folder === undefined) return undefined;
  const resolve = async (reference = "") => declaredModel(folder, reference);
  return { ...modelStore, resolve, verify: async () => ({}) };
}

/** @returns how the model is found again */
export function writeDeclared(folder: string, declared: Declared): string {
  writeFileSync(join(folder, fileOf(declared.digest)), JSON.stringify(declared));
  return `${declared.repository}@${declared.digest}`;
}

export function declaredModel(folder: string, reference: string): PackagedModel {
  const file = join(folder, fileOf(reference.slice(reference.lastIndexOf("@") + 1)));
  // This program wrote it.
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
