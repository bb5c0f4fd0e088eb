/** Prepares the model folder for `build` and `check`. For a weights file, writes a temporary folder. */
import { statSync } from "node:fs";
import { tmpdir } from "node:os";
import { parse, resolve } from "node:path";
import { temporaryFolder } from "../../../machine/files/temporary-folder.ts";
import { modelStore } from "../../../package/model-source.ts";
import { usage } from "../../command-line/command.ts";
import { nameFrom } from "../../commands/init.ts";
import { writePlainModel } from "./plain-model.ts";
import { type GivenInput, isFile } from "./tensor-input.ts";

/** Options of `build` for a weights file. */
interface PlainChoices {
  readonly name: string | undefined;
  readonly input: readonly GivenInput[];
  readonly batchSize: number | undefined;
  readonly aot: boolean;
}

interface PreparedFolder extends Disposable {
  readonly path: string;
  readonly fixedRows?: number | undefined;
  /** The weights file that the command line names, perhaps an exported program; undefined for a folder. */
  readonly program?: string | undefined;
}

/** The given folder. For a weights file, writes a temporary folder, which disposal removes. */
export async function modelFolder(given: string, options: PlainChoices): Promise<PreparedFolder> {
  const { input: inputs, batchSize, aot: isCompiled } = options;
  if (!isFile(given)) {
    if (!statSync(given, { throwIfNoEntry: false })?.isDirectory())
      throw usage(`there is no ${given}; expected a model's folder, or a file of weights`);
    if (inputs.length > 0 || batchSize !== undefined)
      throw usage("--input and --batch-size are for a weights file; model.ts declares both");
    return { path: resolve(given), [Symbol.dispose]() {} };
  }
  await modelStore.prepareLibraries();
  const plain = { name: options.name ?? nameFrom(parse(given).name), inputs, batchSize, isCompiled };
  const folder = temporaryFolder(tmpdir(), "sconce-model-");
  try {
    const { fixedRows } = await writePlainModel(resolve(given), folder.path, { ...plain, isKept: false });
    return { ...folder, fixedRows, program: resolve(given) };
  } catch (error) {
    folder[Symbol.dispose]();
    throw error;
  }
}
