/** The only place that loads the addon, and its types: what native/addon.cc exports. */
import { existsSync } from "node:fs";
import { messageOf, SconceError } from "../errors.ts";
import { loadLibtorch } from "../libraries/external-libtorch.ts";
import { findAddon } from "../libraries/find-addon.ts";
import type { LibraryPack } from "../libraries/pack.ts";
import type { CallArgument, CallResult } from "../model/session.ts";
import { arrayTypes, type PaddedDim, type TensorData } from "../model/tensor.ts";
import type { Program } from "./program.ts";
import type { ProgramGuards } from "./program-guards.ts";

declare const handle: unique symbol;

/** A session as the addon names it: nothing that JS can look into. */
export interface Handle {
  readonly [handle]: true;
}

export interface NativeSpec {
  name: string;
  dtype: number;
  dims: (number | string | PaddedDim)[];
}

/** What native/addon.cc exports. Every function throws or rejects with an Error that has a `code`. */
export interface Addon {
  readonly torchVersion: string;
  /** The names of the dtypes; a dtype's place is its code. */
  readonly dtypes: readonly string[];
  open(options: {
    path: string;
    device: string;
    threads: number;
    inputs: NativeSpec[];
    outputs: NativeSpec[];
    callable: boolean;
    instances: number;
    share: Handle | undefined;
    program: Program | undefined;
    guards: ProgramGuards | undefined;
    keepMs: number;
    pack: boolean;
  }): Promise<Handle>;
  run(session: Handle, rows: number, batch: NativeBatch): Promise<NativeTensors>;
  /** Stacks and pads a batch into new arrays, as `run` does into memory of its own. */
  stack(inputs: readonly NativeSpec[], rows: number, batch: NativeBatch): NativeTensors;
  call(session: Handle, method: string, args: readonly CallArgument[]): Promise<CallResult>;
  loadOperators(path: string): void;
  /** A new file that lies in memory alone (Linux); the caller closes its descriptor. */
  createMemoryFile(): number;
  processorNeeds(path: string): string;
  compiledDevice(path: string): string;
  setThreads(session: Handle, threads: number): Promise<void>;
  /** Whether a run of its weights, which were opened for several instances, may write what the next one reads. */
  keepsState(session: Handle): boolean;
  /** The most rows of a batch that its weights take; Infinity where they do not say. */
  mostRows(session: Handle): number;
  /** How many of its layers were packed. */
  packedLayers(session: Handle): number;
  /** Settles the promises of whatever has ended, which else waits for the event loop to turn. */
  settle(): void;
  close(session: Handle): Promise<void>;
  closeAll(): void;
  cudaDeviceCount(): number;
}

/** The tensors of all items, one after the other: each lies in `packed` or is the next of `data`. */
export interface NativeBatch {
  /** Of each tensor: its dtype's code, its rank, where it begins in `packed` (or -1), its count of elements, its sizes. */
  readonly meta: Float64Array;
  readonly packed: Uint8Array;
  readonly data: readonly TensorData[];
}

/** A typed array for each declared tensor, then the shapes of those that have named sizes. */
export type NativeTensors = (TensorData | number[])[];

/** Which addon is loaded, and what is to be done where that fails. */
export interface NativeLocation {
  readonly path: string;
  readonly fix: string;
  /** In an executable, from which others are compiled: the libtorch that the addon is for, and what both were unpacked from. */
  readonly unpacked?: { readonly torch: string; readonly pack: LibraryPack };
}

/** A compiled executable has the addon elsewhere, and says so here before it is loaded. */
export function setNativeLocation(elsewhere: NativeLocation): void {
  location = elsewhere;
}

/** As it was set or found; undefined before. */
export function nativeLocation(): NativeLocation | undefined {
  return location;
}

/** Loads the addon and libtorch at the first call; throws `native_unavailable` with the way to mend it. */
export function loadNative(): Addon {
  location ??= locate();
  loaded ??= load(location);
  return loaded;
}

/** For an addon that does not do what its types say. */
export function otherVersion(): SconceError {
  return new SconceError(
    "native_unavailable",
    `the native addon is of another version of sconce: ${location?.fix ?? reinstall}`,
  );
}

const reinstall = "install sconce again";
let location: NativeLocation | undefined;
let loaded: Addon | undefined;

function locate(): NativeLocation {
  const { path, libtorch, isLinked } = findAddon();
  if (isLinked) return { path, fix: "run `npm run setup`" };
  loadLibtorch(libtorch);
  return { path, fix: reinstall };
}

function load({ path, fix }: NativeLocation): Addon {
  if (!existsSync(path)) {
    throw new SconceError("native_unavailable", `the native addon is not built (${path} is missing): ${fix}`);
  }
  const module: { exports: unknown } = { exports: {} };
  try {
    process.dlopen(module, path);
  } catch (cause) {
    const reason = messageOf(cause).split("\n", 1)[0];
    throw new SconceError("native_unavailable", `the native addon cannot be loaded (${reason}): ${fix}`, { cause });
  }
  const addon = module.exports;
  if (!isAddon(addon)) throw otherVersion();
  // No thread may be inside libtorch while the process takes its libraries down.
  process.once("exit", () => addon.closeAll());
  return addon;
}

const functions = [
  "open",
  "run",
  "stack",
  "call",
  "loadOperators",
  "createMemoryFile",
  "processorNeeds",
  "compiledDevice",
  "setThreads",
  "keepsState",
  "mostRows",
  "packedLayers",
  "settle",
  "close",
  "closeAll",
  "cudaDeviceCount",
] as const;

function isAddon(value: unknown): value is Addon {
  if (typeof value !== "object" || value === null) return false;
  const members = new Map<string, unknown>(Object.entries(value));
  const dtypes = members.get("dtypes");
  return (
    functions.every((name) => typeof members.get(name) === "function") &&
    Array.isArray(dtypes) &&
    Object.keys(arrayTypes).every((name) => dtypes.includes(name))
  );
}
