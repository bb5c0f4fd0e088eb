/** Where the commands that run a model get it from: the store, or the executable that they are part of. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { codedError, SconceError } from "../errors.ts";
import type { PackagedModel } from "../store/packaged-model.ts";
import { ModelStore } from "../store/store.ts";
import type { Stamps } from "../store/verification.ts";
import type { Positional } from "./arguments.ts";
import type { OptionTable } from "./option.ts";
import { programName } from "./program-name.ts";
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

type Libraries = Pick<ModelSource, "unpackLibraries" | "prepareLibraries">;

/** Those of the set-up lie where they are. */
let libraries: Libraries = {
  async unpackLibraries() {},
  async prepareLibraries() {},
};

/** For an executable with the whole command line, which has them inside. */
export function setLibraries(own: Libraries): void {
  libraries = own;
}

/** What is served is what was built; folders are, where nothing else has their name. */
function folderGiven(dir: string, cause: unknown): SconceError {
  const { code, message } = codedError(cause);
  const fix = `${dir} is a folder: ${programName} build ${dir} packages it, ${programName} dev ${dir} serves it as it is`;
  return new SconceError(code, `${message}; ${fix}`, { cause });
}

/** The model store of this user, and the addon and libtorch of this program. */
export const modelStore: ModelSource = {
  reference: {
    name: "model",
    description: "repo[:tag] or repo@sha256:…; no tag means latest, no name the most recent build of all",
    required: false,
  },
  libraryOptions: {},
  async resolve(reference, options) {
    try {
      return await new ModelStore().resolve(reference, options);
    } catch (error) {
      throw reference !== undefined && existsSync(join(reference, "model.ts")) ? folderGiven(reference, error) : error;
    }
  },
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
  unpackLibraries: () => libraries.unpackLibraries(),
  prepareLibraries: () => libraries.prepareLibraries(),
};
