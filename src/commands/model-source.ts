/** Where the commands that run a model get it from: the store, or the executable that they are part of. */
import type { OptionTable } from "../option.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { ModelStore } from "../store/store.ts";
import type { Stamps } from "../store/verification.ts";
import type { Positional } from "./arguments.ts";
import { Progress } from "./progress.ts";

export interface ModelSource {
  /** Names the model on a command line; undefined where there is only one. */
  readonly reference: Positional | undefined;
  /** Options that every command takes which loads libtorch. */
  readonly libraryOptions: OptionTable;
  /**
   * @param options.weights whether they must be there: a front does without
   * @throws SconceError when there is no such model, or it cannot be read
   */
  resolve(reference: string | undefined, options?: { weights?: boolean }): Promise<PackagedModel>;
  /** Every tag that stands for the model. */
  tagsOf(model: PackagedModel): Promise<readonly string[]>;
  /**
   * Checks all files of the model against their digests.
   * @param known of files that another process has checked
   * @throws SconceError `store_corrupt`
   */
  verify(model: PackagedModel, known?: Stamps): Promise<Stamps>;
  /** Gets what a process of its own will load onto the disk; this one loads nothing. */
  unpackLibraries(): Promise<void>;
  /** Gets the addon and libtorch to where they can be loaded; to be awaited before they are. */
  prepareLibraries(): Promise<void>;
}

/** The model store of this user; the addon and libtorch are those of the set-up. */
export const modelStore: ModelSource = {
  reference: {
    name: "model",
    description: "repo[:tag] or repo@sha256:…; no tag means latest, no name the most recent build of all",
    required: false,
  },
  libraryOptions: {},
  resolve: (reference, options) => new ModelStore().resolve(reference, options),
  async tagsOf({ repository, digest, tag }) {
    const all = await new ModelStore().list();
    return all.find((one) => one.repository === repository && one.digest === digest)?.tags ?? [tag];
  },
  async verify(model, known = {}) {
    const progress = new Progress({ verb: "Checking" });
    return new ModelStore()
      .verify(model, { known, onProgress: (step) => progress.update(step) })
      .finally(() => progress.end());
  },
  async unpackLibraries() {},
  async prepareLibraries() {},
};
