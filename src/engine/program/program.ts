/**
 * Reads an exported program (`torch.export.save`) for the addon: graph as TorchScript, guards as functions of sizes, and
 * positions of the weights.
 */
import { basename } from "node:path";
import { z } from "zod";
import { messageOf, SconceError } from "../../base/errors.ts";
import { Archive } from "./archive.ts";
import { type PackageFacts, packageFacts } from "./package-facts.ts";
import { type ProgramText, programText } from "./program-graph.ts";
import { type GuardSource, guardSource, type ProgramGuards, programGuards } from "./program-guards.ts";
import { guardsOf } from "./program-inputs.ts";
import { parseExactly } from "./program-literals.ts";
import { libtorchDType, payloadSchema, programSchema } from "./program-schema.ts";
import { trainingMistake } from "./program-training.ts";

/** Position of a weight in the archive: the entry with its bytes, and how the weight views them. */
export interface ProgramWeight {
  readonly record: string;
  readonly dtype: number;
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
}

export interface Program extends Omit<ProgramText, "weights"> {
  readonly weights: readonly ProgramWeight[];
}

export const programFile = /^[^/]+\/models\/model\.json$/;
/** Name of the generated C++ code in an AOTInductor package. */
export const packageSource = /\.wrapper\.cpp$/;

/**
 * Refuses a program in training mode.
 * @param program the parsed model.json of the file at this path
 * @throws SconceError `weights_invalid`
 */
export function requireEvalMode(path: string, program: unknown): void {
  const mistake = trainingMistake(program);
  if (mistake !== undefined) throw new SconceError("weights_invalid", `${basename(path)}: ${mistake}`);
}

/**
 * Reads the exported program in a file.
 * @returns undefined when the file is not an exported program
 * @throws SconceError `weights_invalid`, with the reason, for a program in training mode, and for a program that only
 * AOTInductor can run
 */
export function readProgram(path: string): Program | undefined {
  const archive = Archive.open(path);
  const json = archive?.text(programFile);
  if (archive === undefined || json === undefined) return undefined;
  const program = explained(path, () => parseExactly(json));
  requireEvalMode(path, program);
  return explained(path, () => {
    const text = programText(programSchema.parse(program));
    const found = new Map([...payloads(archive, "weights"), ...payloads(archive, "constants")]);
    const weights = text.weights.map((name) => {
      const weight = found.get(name);
      if (weight === undefined) throw new Error(`its weight ${name} is stored in a way that sconce does not read`);
      return weight;
    });
    return { ...text, weights };
  });
}

function explained<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const why =
      error instanceof z.ZodError
        ? "it is written in a schema that sconce does not know"
        : error instanceof SyntaxError
          ? `a part of it is not JSON (${messageOf(error)})`
          : messageOf(error);
    throw new SconceError("weights_invalid", `${basename(path)} can't be run uncompiled: ${why}`, { cause: error });
  }
}

/** Metadata key of the guards in a compiled package. */
export const GUARDS_KEY = "sconce_guards";

const isPackageEntry = /data\/aotinductor\//;

/** Whether a file is an AOTInductor package. */
export function isPackage(path: string): boolean {
  return Archive.open(path)?.has(isPackageEntry) ?? false;
}

export interface CompiledPackage extends PackageFacts {
  /** The C++ source that PyTorch generated; empty if the package lacks it. */
  readonly source: string;
  readonly guards: ProgramGuards | undefined;
}

/**
 * Reads an AOTInductor package.
 * @returns undefined for other files
 * @throws SconceError `weights_invalid` for an unsupported guard
 */
export function readPackage(path: string): CompiledPackage | undefined {
  const archive = Archive.open(path);
  if (!archive?.has(isPackageEntry)) return undefined;
  const source = archive.text(packageSource) ?? "";
  const facts = packageFacts(source);
  const text = metadataOf(path)[GUARDS_KEY];
  const guards =
    text === undefined ? undefined : explained(path, () => programGuards(guardSource.parse(parseExactly(text))));
  return { ...facts, source, guards, mostRows: Math.min(facts.mostRows, guards?.mostRows ?? Infinity) };
}

/** Kind of device that an AOTInductor package was compiled for, `cpu` or `cuda`; undefined for other files. */
export function compiledDevice(path: string): string | undefined {
  return metadataOf(path).AOTI_DEVICE_KEY;
}

const metadata = z.object({
  [GUARDS_KEY]: z.string().optional(),
  AOTI_DEVICE_KEY: z.string().optional(),
  AOTI_MACHINE: z.string().optional(),
  AOTI_CPU_ISA: z.string().optional(),
});

/** Facts that PyTorch and sconce write beside the code of a package; none in other files. */
export function metadataOf(path: string): z.infer<typeof metadata> {
  const text = Archive.open(path)?.text(/_metadata\.json$/) ?? "{}";
  return explained(path, () => metadata.safeParse(JSON.parse(text)).data ?? {});
}

/**
 * Guards of an exported program, for compiling it into a package.
 * @throws SconceError `weights_invalid` for an unsupported guard
 */
export function guardSourceOf(path: string): GuardSource {
  const json = Archive.open(path)?.text(programFile) ?? "";
  return explained(path, () => {
    const source = guardsOf(programSchema.parse(parseExactly(json)));
    programGuards(source);
    return source;
  });
}

/** Names and positions of the tensors in a folder of the archive. */
function payloads(archive: Archive, folder: string): [string, ProgramWeight][] {
  const text = archive.text(new RegExp(`/data/${folder}/model_${folder}_config\\.json$`));
  const { success, data } = payloadSchema.safeParse(JSON.parse(text ?? "{}"));
  if (!success) return [];
  return Object.entries(data.config).map(([name, { path_name: file, tensor_meta: meta }]) => {
    const { sizes, strides, storage_offset: offset } = meta;
    return [name, { record: `data/${folder}/${file}`, dtype: libtorchDType(meta.dtype), sizes, strides, offset }];
  });
}
