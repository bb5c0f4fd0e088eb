/**
 * A weights file, read without libtorch: its kind, the facts that it states, and how libtorch runs it. An exported
 * program (`torch.export.save`) becomes TorchScript, guards as functions of sizes, and positions of the weights.
 */
import { statSync } from "node:fs";
import { basename } from "node:path";
import { z } from "zod";
import type { TensorSpecs } from "../../author/tensor.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { Archive } from "../../machine/files/archive.ts";
import { type ProcessorNeeds, processorNeeds, requireProcessor } from "../../machine/processor-needs.ts";
import { type PackageNames, type PackageOrder, packageNames, packageOrder } from "./call-spec.ts";
import { packageFacts } from "./package-facts.ts";
import { type ProgramText, programText } from "./program-graph.ts";
import { type GuardSource, guardSource, guardsOf, type ProgramGuards, programGuards } from "./program-guards.ts";
import { parseExactly } from "./program-literals.ts";
import { libtorchDType, payloadSchema, programSchema } from "./program-schema.ts";
import { SessionGuards } from "./session-guards.ts";

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

/** How batches and calls reach an AOTInductor package. */
export interface CompiledCall extends PackageOrder {
  /** Smallest batch that the package accepts. Smaller batches are padded. */
  readonly minRows: number;
}

/** How libtorch runs the weights. Without a program and a compiled call, they are TorchScript. */
export interface Runnable {
  readonly program?: Program;
  readonly compiled?: CompiledCall;
  readonly guards?: SessionGuards | undefined;
  /** Largest batch in rows; Infinity without a limit. */
  readonly mostRows: number;
  /** Whether a run may modify state that the next run reads. Undefined for TorchScript, where only the addon knows. */
  readonly keepsState?: boolean;
}

/** The declared tensors, in the order of a batch. */
interface Declared {
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
}

const programFile = /^[^/]+\/models\/model\.json$/;
/** Name of the generated C++ code in an AOTInductor package. */
const packageSource = /\.wrapper\.cpp$/;
const packageEntry = /data\/aotinductor\//;
const scriptEntry = /\/constants\.pkl$/;

/** Metadata key of the guards in a compiled package. */
export const GUARDS_KEY = "sconce_guards";

const metadataSchema = z.object({
  [GUARDS_KEY]: z.string().optional(),
  AOTI_DEVICE_KEY: z.string().optional(),
  AOTI_MACHINE: z.string().optional(),
  AOTI_CPU_ISA: z.string().optional(),
});

const expected =
  "expected an exported program (torch.export.save), an AOTInductor package (aoti_compile_and_package) or a TorchScript file";

export class WeightsFile {
  readonly #path: string;
  readonly #name: string;
  readonly #archive: Archive | undefined;

  /** @param name name of the file for error messages */
  constructor(path: string, name = basename(path)) {
    this.#path = path;
    this.#name = name;
    this.#archive = Archive.open(path);
  }

  /** The JSON text of an exported program; undefined for other files. */
  get programText(): string | undefined {
    return this.#archive?.text(programFile);
  }

  /** The C++ source that PyTorch generated for an AOTInductor package; undefined if there is none. */
  get packageSource(): string | undefined {
    return this.#archive?.text(packageSource);
  }

  /** Names of an AOTInductor package's inputs and outputs; none if the package does not state them. */
  get packageNames(): PackageNames {
    return packageNames(this.packageSource ?? "");
  }

  /** Why the file cannot be weights; undefined if it may be. */
  get fault(): string | undefined {
    const archive = this.#archive;
    if (archive?.has(scriptEntry) || this.#isPackage || this.programText !== undefined) return undefined;
    if (!statSync(this.#path, { throwIfNoEntry: false })?.isFile()) return "there is no such file";
    const isCut = archive === undefined || archive.has(programFile);
    return isCut
      ? `the file is not a zip archive that PyTorch wrote, or it is cut off; ${expected}`
      : `the archive holds no model; ${expected}`;
  }

  /** Kind of device that an AOTInductor package was compiled for, `cpu` or `cuda`; undefined for other files. */
  get device(): string | undefined {
    return this.#metadata.AOTI_DEVICE_KEY;
  }

  /**
   * Architecture and features that compiled weights need, e.g. "x86_64 avx2 fma". Undefined for weights that are not
   * compiled, which run anywhere.
   * @throws SconceError `weights_invalid`
   */
  get processor(): string | undefined {
    if (!this.#isPackage) return undefined;
    const { machine, features } = this.#needs;
    return [machine, ...features].filter((word) => word !== "").join(" ") || undefined;
  }

  /** Architecture and features that an AOTInductor package needs. */
  get #needs(): ProcessorNeeds {
    const { AOTI_MACHINE: machine = "", AOTI_DEVICE_KEY: device = "cpu", AOTI_CPU_ISA: isas = "" } = this.#metadata;
    return processorNeeds({ machine, device, isas });
  }

  /**
   * The guards of an exported program, for compiling it into a package.
   * @throws SconceError `weights_invalid` for an unsupported guard
   */
  guardSource(): GuardSource {
    return this.#explained(() => {
      const source = guardsOf(programSchema.parse(parseExactly(this.programText ?? "")));
      programGuards(source);
      return source;
    });
  }

  /**
   * Reads the exported program in the file.
   * @returns undefined when the file is not an exported program
   * @throws SconceError `weights_invalid`, with the reason, for a program that only AOTInductor can run
   */
  program(): Program | undefined {
    const json = this.programText;
    if (json === undefined) return undefined;
    return this.#explained(() => {
      const text = programText(programSchema.parse(parseExactly(json)));
      const found = new Map([...this.#payloads("weights"), ...this.#payloads("constants")]);
      const weights = text.weights.map((name) => {
        const weight = found.get(name);
        if (weight === undefined) throw new Error(`its weight ${name} is stored in a way that sconce does not read`);
        return weight;
      });
      return { ...text, weights };
    });
  }

  /**
   * Reads how libtorch runs the file on a kind of device.
   * @param declared undefined for a session that only supports `call`
   * @throws SconceError `weights_invalid` if the file is not weights, or needs another device or processor
   */
  runnable(kind: string, declared: Declared | undefined): Runnable {
    const { fault } = this;
    if (fault !== undefined) throw new SconceError("weights_invalid", `weights "${this.#name}": ${fault}`);
    const guarded = (guards: ProgramGuards | undefined) => guards && new SessionGuards(guards, declared?.inputs ?? {});
    const program = this.program();
    if (program !== undefined) return { program, guards: guarded(program.guards), mostRows: program.guards.mostRows };
    if (!this.#isPackage) return { mostRows: Infinity };
    const source = this.packageSource ?? "";
    const { minRows, mostRows, keepsState } = packageFacts(source);
    const guards = this.#packageGuards();
    this.#requireMachine(kind);
    const order =
      declared === undefined
        ? { inputs: [], outputs: [] }
        : packageOrder(source, { inputs: Object.keys(declared.inputs), outputs: Object.keys(declared.outputs) });
    return {
      compiled: { minRows, ...order },
      guards: guarded(guards),
      mostRows: Math.min(mostRows, guards?.mostRows ?? Infinity),
      keepsState,
    };
  }

  get #isPackage(): boolean {
    return this.#archive?.has(packageEntry) ?? false;
  }

  /** Facts that PyTorch and sconce write beside the code of a package; none in other files. */
  get #metadata(): z.infer<typeof metadataSchema> {
    const text = this.#archive?.text(/_metadata\.json$/) ?? "{}";
    return this.#explained(() => metadataSchema.safeParse(JSON.parse(text)).data ?? {});
  }

  #packageGuards(): ProgramGuards | undefined {
    const text = this.#metadata[GUARDS_KEY];
    return text === undefined ? undefined : this.#explained(() => programGuards(guardSource.parse(parseExactly(text))));
  }

  #requireMachine(kind: string): void {
    const { device } = this;
    if (device !== undefined && device !== kind) {
      const both = `the package was compiled for ${device}, the device is ${kind}`;
      const fix = `compile it for that one, or run it on --device ${device}`;
      throw new SconceError("weights_invalid", `${both}: ${fix}`);
    }
    requireProcessor(this.#needs);
  }

  /** Names and positions of the tensors in a folder of the archive. */
  #payloads(folder: string): [string, ProgramWeight][] {
    const text = this.#archive?.text(new RegExp(`/data/${folder}/model_${folder}_config\\.json$`));
    const { success, data } = payloadSchema.safeParse(JSON.parse(text ?? "{}"));
    if (!success) return [];
    return Object.entries(data.config).map(([name, { path_name: file, tensor_meta: meta }]) => {
      const { sizes, strides, storage_offset: offset } = meta;
      return [name, { record: `data/${folder}/${file}`, dtype: libtorchDType(meta.dtype), sizes, strides, offset }];
    });
  }

  #explained<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      const why =
        error instanceof z.ZodError
          ? "it is written in a schema that sconce does not know"
          : error instanceof SyntaxError
            ? `a part of it is not JSON (${messageOf(error)})`
            : messageOf(error);
      const message = `${this.#name} can't be run uncompiled: ${why}`;
      throw new SconceError("weights_invalid", message, { cause: error });
    }
  }
}
