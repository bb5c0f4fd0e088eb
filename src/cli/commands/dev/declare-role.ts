/**
 * The child process that loads a folder's code once, to check it and read its declaration. When this process ends,
 * timers and connections of the model's code end too.
 */
import { realpathSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { z } from "zod";
import type { OpenedModel } from "../../../author/define.ts";
import { fileStamp } from "../../../machine/files/file-stamp.ts";
import { AddressGuard } from "../../../machine/network/address-guard.ts";
import type { Role } from "../../../machine/processes/link.ts";
import { modelStore } from "../../../package/model-source.ts";
import { mediaTypes } from "../../../package/store/manifest.ts";
import type { PackagedLayer } from "../../../package/store/packaged-model.ts";
import { Fetcher } from "../../../pipeline/fetcher.ts";
import { ItemPipeline } from "../../../pipeline/item-pipeline.ts";
import { prepareExample, runSetup } from "../../../pipeline/set-up.ts";
import { declaredConfig, type SourceModel, withSource } from "../../build/source-model.ts";
import { writeDeclared } from "./folder-source.ts";

const declareStart = z.object({
  dir: z.string(),
  folder: z.string(),
  timeoutS: z.number(),
  externals: z.array(z.string()),
});

export const declaredFacts = z.object({
  reference: z.string(),
  /** A hash that differs only if the engine process, which runs the model, must be replaced. */
  engineKey: z.string(),
  /** Folders outside the model's folder that contain files of the model. */
  elsewhere: z.array(z.string()),
});
export type DeclaredFacts = z.infer<typeof declaredFacts>;

export const declareRole: Role = async (start, link) => {
  const { dir, folder, timeoutS, externals } = declareStart.parse(start);
  await modelStore.prepareLibraries();
  const facts = await withSource({ dir, timeoutS, externals }, async (source) => {
    const { model, pathOf, example } = source;
    await runSetup(model, pathOf);
    using fetcher = new Fetcher({ guard: new AddressGuard() });
    if (example !== undefined) await prepareExample(model, new ItemPipeline(model, fetcher), example);
    return declare(source, { dir, folder });
  });
  link.ready(facts);
  await link.stopping;
};

function declare(source: SourceModel, { dir, folder }: { dir: string; folder: string }): DeclaredFacts {
  const { code, sources, model, files, pathOf } = source;
  const bundle = join(folder, `${Bun.hash(code).toString(36)}.js`);
  writeFileSync(bundle, code);
  const layers: PackagedLayer[] = [
    layer({ title: "model.js", mediaType: mediaTypes.bundle, path: bundle, digest: sha256(code) }),
    ...[...files].map(([title, mediaType]) => {
      const path = pathOf(title);
      return layer({ title, mediaType, path, digest: sha256(`${path} ${fileStamp(path)}`) });
    }),
  ];
  const config = declaredConfig(source);
  const digest = sha256(JSON.stringify([config, layers]));
  const root = realpathSync(dir);
  const paths = [...sources.filter((path) => !path.includes("/node_modules/")), ...[...files.keys()].map(pathOf)];
  const folders = paths.map((path) => dirname(realpathSync(path)));
  return {
    reference: writeDeclared(folder, { repository: model.name, digest, config, layers }),
    engineKey: engineKey(model, layers, code),
    elsewhere: [...new Set(folders)].filter((path) => relative(root, path).startsWith("..")),
  };
}

/** Hash of everything that the engine process loads. The model's code counts only if it defines `predict`. */
function engineKey(
  { tensors, settings, predict }: OpenedModel,
  layers: readonly PackagedLayer[],
  code: string,
): string {
  const loaded = layers.filter(
    ({ mediaType }) => mediaType === mediaTypes.weights || mediaType === mediaTypes.operators,
  );
  return sha256(JSON.stringify([tensors, settings, loaded, predict && code]));
}

function layer(given: Omit<PackagedLayer, "size">): PackagedLayer {
  return { ...given, size: statSync(given.path).size };
}

function sha256(text: string): string {
  return `sha256:${new Bun.CryptoHasher("sha256").update(text).digest("hex")}`;
}
