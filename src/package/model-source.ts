/** Where commands find models: in the model store, or in the executable that runs. */
import { codedError, SconceError } from "../base/errors.ts";
import type { Positional } from "../base/option.ts";
import { Progress } from "../base/progress.ts";
import { programName } from "../machine/processes/program-name.ts";
import { modelFile } from "./code/bundle.ts";
import type { PackagedModel } from "./store/packaged-model.ts";
import { ModelStore } from "./store/store.ts";
import type { Stamps } from "./store/verification.ts";

export interface ModelSource {
  /** The command-line argument that names a model; undefined in an executable that contains one model. */
  readonly reference: Positional | undefined;
  /**
   * Finds a model.
   * @param options.home folder of the store to search; by default the user's store
   * @param options.weights false accepts a model without weights, for a server that only answers HTTP (`--role front`)
   * @throws SconceError when the model does not exist or cannot be read
   */
  resolve(
    reference: string | undefined,
    options?: { readonly weights?: boolean; readonly home?: string | undefined },
  ): Promise<PackagedModel>;
  /** All tags in the model's repository that point to this model. */
  tagsOf(model: PackagedModel): Promise<readonly string[]>;
  /**
   * Checks all files of the model against their digests.
   * @param known stamps (size, times and inode) of files that another process has checked
   * @returns the stamps of all files
   * @throws SconceError `store_corrupt`
   */
  verify(model: PackagedModel, known?: Stamps): Promise<Stamps>;
  /** Unpacks addon and libtorch from the executable, so that a child process can load them. */
  unpackLibraries(): Promise<void>;
  /** Unpacks or finds addon and libtorch for this process. Callers await this before they load the addon. */
  prepareLibraries(): Promise<void>;
}

type Libraries = Pick<ModelSource, "unpackLibraries" | "prepareLibraries">;

/** Default for an installation, whose libraries are files: there is nothing to unpack. */
let libraries: Libraries = {
  async unpackLibraries() {},
  async prepareLibraries() {},
};

/** Sets the functions that unpack the libraries of an executable. */
export function setLibraries(own: Libraries): void {
  libraries = own;
}

/**
 * Adds the commands `build` and `dev` to the error of a user who gave a model folder where a model's name is expected.
 */
function folderGiven(dir: string, cause: unknown): SconceError {
  const { code, message } = codedError(cause);
  const fix = `${dir} is a folder: ${programName} build ${dir} packages it, ${programName} dev ${dir} serves it as it is`;
  return new SconceError(code, `${message}; ${fix}`, { cause });
}

/** The user's model store. */
export const modelStore: ModelSource = {
  reference: {
    name: "model",
    description:
      "repo[:tag] or repo@sha256:…; the default tag is latest; or the path of a folder with a model store. Default: the most recent build",
    required: false,
  },
  async resolve(reference, options = {}) {
    try {
      return await new ModelStore(options.home).resolve(reference, options);
    } catch (error) {
      throw reference !== undefined && modelFile(reference) !== undefined ? folderGiven(reference, error) : error;
    }
  },
  async tagsOf({ repository, digest, tag, home }) {
    const all = await new ModelStore(home).list();
    return all.find((one) => one.repository === repository && one.digest === digest)?.tags ?? [tag];
  },
  async verify(model, known = {}) {
    const progress = new Progress({ verb: "Checking" });
    return new ModelStore(model.home)
      .verify(model, { known, onProgress: (step) => progress.update(step) })
      .finally(() => progress.end());
  },
  unpackLibraries: () => libraries.unpackLibraries(),
  prepareLibraries: () => libraries.prepareLibraries(),
};
