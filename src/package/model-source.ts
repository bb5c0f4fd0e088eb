/** The places where commands find models: the model store, or the executable itself. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { codedError, SconceError } from "../base/errors.ts";
import type { OptionTable, Positional } from "../base/option.ts";
import { Progress } from "../base/progress.ts";

import { programName } from "../machine/processes/program-name.ts";
import type { PackagedModel } from "./store/packaged-model.ts";
import { ModelStore } from "./store/store.ts";
import type { Stamps } from "./store/verification.ts";

export interface ModelSource {
  /** The argument that names a model; undefined when there is only one model. */
  readonly reference: Positional | undefined;
  /** Command-line options of every command that loads libtorch. */
  readonly libraryOptions: OptionTable;
  /**
   * Finds a model.
   * @param options.weights false accepts a model without weights, for a server that only answers HTTP (`--role front`)
   * @throws SconceError when the model does not exist or cannot be read
   */
  resolve(reference: string | undefined, options?: { weights?: boolean }): Promise<PackagedModel>;
  /** All tags of the model. */
  tagsOf(model: PackagedModel): Promise<readonly string[]>;
  /**
   * Checks all files of the model against their digests.
   * @param known metadata stamps of files that another process has checked
   * @returns the stamps of all files
   * @throws SconceError `store_corrupt`
   */
  verify(model: PackagedModel, known?: Stamps): Promise<Stamps>;
  /** Unpacks the libraries for a child process, without loading them. */
  unpackLibraries(): Promise<void>;
  /** Makes the addon and libtorch loadable. Callers await this before they load them. */
  prepareLibraries(): Promise<void>;
}

type Libraries = Pick<ModelSource, "unpackLibraries" | "prepareLibraries">;

/** Default for an installation, whose libraries are in place already. */
let libraries: Libraries = {
  async unpackLibraries() {},
  async prepareLibraries() {},
};

/** Sets the functions that unpack the libraries of an executable. */
export function setLibraries(own: Libraries): void {
  libraries = own;
}

/** The error for a model folder in place of a packaged model. The message suggests `build` and `dev`. */
function folderGiven(dir: string, cause: unknown): SconceError {
  const { code, message } = codedError(cause);
  const fix = `${dir} is a folder: ${programName} build ${dir} packages it, ${programName} dev ${dir} serves it as it is`;
  return new SconceError(code, `${message}; ${fix}`, { cause });
}

/** The user's model store, with the addon and libtorch of this installation. */
export const modelStore: ModelSource = {
  reference: {
    name: "model",
    description: "repo[:tag] or repo@sha256:…; the default tag is latest. Without MODEL: the most recent build of all",
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
