/**
 * Serves a folder without packaging. The bundle is in a temporary folder; all other files stay in the author's folder.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
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

/** Finds models for the processes of a server: in a store, or in the folder in which `sconce dev` declares them. */
export const storeOrFolder: ModelSource = {
  ...modelStore,
  async resolve(reference = "", options = {}) {
    const { home } = options;
    const isDeclared = home !== undefined && existsSync(declarationOf(home, reference));
    return isDeclared ? declaredModel(home, reference) : modelStore.resolve(reference, options);
  },
};

/** Writes a model's declaration to a file in the folder. @returns the reference for `declaredModel` */
export function writeDeclared(folder: string, declared: Declared): string {
  const reference = `${declared.repository}@${declared.digest}`;
  writeFileSync(declarationOf(folder, reference), JSON.stringify(declared));
  return reference;
}

export function declaredModel(folder: string, reference: string): PackagedModel {
  // The file needs no validation, because this program wrote it.
  const { repository, digest, config, layers }: Declared = JSON.parse(
    readFileSync(declarationOf(folder, reference), "utf8"),
  );
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
    home: folder,
  });
}

/** The file with the declaration of a build, `repository@sha256:…`. */
function declarationOf(folder: string, reference: string): string {
  const [, digest = ""] = reference.split("@sha256:");
  return join(folder, `${digest.slice(0, 12)}.json`);
}
