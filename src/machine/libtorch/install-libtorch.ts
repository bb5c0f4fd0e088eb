/**
 * Installs the libraries of a torch wheel and their dependencies. The folder gets its name only when it is complete.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import type { ZipEntry } from "../../base/zip.ts";
import { diskFault, requireRoom } from "../files/disk-fault.ts";
import { syncPath } from "../files/durable.ts";
import { lockWhenFree } from "../files/lock.ts";
import { runsHere } from "./choose-wheel.ts";
import { type Linked, linkedTo } from "./linked-libraries.ts";
import { loadLibrary } from "./load-library.ts";
import { unavailable } from "./wheels/index-client.ts";
import type { PackageIndex, WheelLink } from "./wheels/package-index.ts";
import { type Requirement, requirementsOf } from "./wheels/requirement.ts";
import { compareReleases, isAllowed } from "./wheels/version.ts";
import { Wheel, type WheelOptions } from "./wheels/wheel.ts";

export interface InstallOptions {
  readonly index: PackageIndex;
  readonly wheel: WheelLink;
  /** Parent folder; the installation gets a subfolder named after the release. */
  readonly folder: string;
  /** Also installs the CUDA libraries. */
  readonly gpu: boolean;
  /** Fetches only the needed ranges of each wheel, so the index's digests cannot be checked. */
  readonly inParts: boolean;
  readonly platform: { readonly glibc: string | undefined; readonly arch: NodeJS.Architecture };
  /** Called when another process is installing into the folder. */
  onWait(): void;
  onProgress: WheelOptions["onProgress"];
}

export interface Installation {
  /** The folder that contains `lib/`. */
  readonly root: string;
  /** False when the release was already installed. */
  readonly isNew: boolean;
  /** Wheels that were fetched in parts and not compared with the index's digest. */
  readonly inParts: readonly string[];
}

const core = "libtorch_cpu.so";
const cudaCore = "libtorch_cuda.so";
const unfinished = ".unpacking-";

/**
 * Installs a wheel unless it is installed. Safe against kills (the next run resumes) and concurrent runs.
 * @throws SconceError `index_unavailable`, `wheel_invalid`, `store_unwritable`, `native_unavailable`
 */
export async function installLibtorch(options: InstallOptions): Promise<Installation> {
  const { folder, wheel, gpu, index } = options;
  const target = join(folder, `${wheel.version.text}${gpu ? "-cuda" : ""}`);
  const root = join(target, "torch");
  if (existsSync(target)) return { root, isNew: false, inParts: [] };
  const partials = join(folder, ".partial");
  try {
    mkdirSync(partials, { recursive: true });
    using _lock = await lockWhenFree(join(folder, ".lock"), { onWait: options.onWait, signal: index.client.signal });
    if (existsSync(target)) return { root, isNew: false, inParts: [] };
    // Complete files of an interrupted installation are not fetched again.
    const staged = join(folder, `${unfinished}${basename(target)}`);
    for (const name of readdirSync(folder)) {
      if (name.startsWith(unfinished) && name !== basename(staged)) rmSync(join(folder, name), { recursive: true });
    }
    const inParts = await unpackInto(staged, { ...options, partials });
    // Loading detects an incompatible C library and damaged files.
    const fault = loadLibrary(join(staged, "torch", "lib", core));
    if (fault !== undefined) {
      rmSync(staged, { recursive: true });
      throw new SconceError("native_unavailable", `${wheel.filename} cannot be loaded on this machine: ${fault}`);
    }
    syncPath(staged);
    renameSync(staged, target);
    syncPath(folder);
    rmSync(partials, { recursive: true });
    return { root, isNew: true, inParts };
  } catch (error) {
    throw diskFault(error, folder) ?? error;
  }
}

/** @returns names of the wheels that were fetched in parts */
async function unpackInto(staged: string, options: Staging): Promise<string[]> {
  const torch = await Wheel.open(options.wheel, wheelOptions(options));
  const libraries = torch.entries.filter(isLibrary);
  const has = (name: string) => libraries.some((entry) => basename(entry.name) === name);
  if (!has(core)) throw new SconceError("wheel_invalid", `${torch.link.filename} has no ${core}`);
  if (options.gpu && !has(cudaCore)) {
    throw new SconceError(
      "usage",
      `${torch.link.filename} is for the CPU alone; leave out --cuda, or name another --index`,
    );
  }
  const roots = options.gpu ? [core, cudaCore] : [core];
  await unpack(
    torch,
    torch.entries.filter(
      (entry) =>
        entry.name === "torch/version.py" || roots.includes(basename(entry.name)) || (options.gpu && isForGpus(entry)),
    ),
    staged,
  );
  const wheels = [torch];
  if (options.gpu) {
    wheels.push(...(await companions(torch, options)));
    // CUDA libraries open each other at run time, beyond their linked dependencies. So all of them are unpacked.
    for (const wheel of wheels.slice(1)) await unpack(wheel, wheel.entries.filter(isLibrary), staged);
  }
  for (const root of roots) {
    for (;;) {
      const outside = await neededOutside(staged, root);
      const next = found(wheels, outside, staged);
      for (const { wheel, entry } of next) await unpack(wheel, [entry], staged);
      if (next.length > 0) continue;
      const missing = outside.find(({ path }) => path === undefined);
      if (missing === undefined) break;
      const others = wheels.length > 1 ? [] : await companions(torch, options);
      if (others.length === 0) throw needs(root, missing.name);
      wheels.push(...others);
    }
  }
  const inParts = wheels.filter(({ isChecked, link }) => !isChecked && link.sha256 !== undefined);
  return inParts.map(({ link }) => link.filename);
}

interface Staging extends InstallOptions {
  readonly partials: string;
}

interface Found {
  readonly wheel: Wheel;
  readonly entry: ZipEntry;
}

function wheelOptions({ index, partials, inParts, onProgress }: Staging): WheelOptions {
  return { client: index.client, partials, inParts, onProgress };
}

function isLibrary({ name }: ZipEntry): boolean {
  return /^(torch(\/lib|\.libs)|nvidia\/.*lib)\/[^/]+\.so[^/]*$/.test(name);
}

/** torch's own CUDA libraries. */
function isForGpus({ name }: ZipEntry): boolean {
  return /\/lib(torch_cuda|c10_cuda|caffe2_nvrtc|torch_nvshmem)[^/]*$/.test(name);
}

async function unpack(wheel: Wheel, entries: readonly ZipEntry[], folder: string): Promise<void> {
  const packed = entries.map(({ packedSize }) => packedSize);
  mkdirSync(folder, { recursive: true });
  requireRoom(folder, entries.reduce((sum, { size }) => sum + size, 0) + Math.max(0, ...packed));
  await wheel.unpack(entries, folder);
}

/** Linked libraries that the folder does not contain yet. */
async function neededOutside(staged: string, root: string): Promise<Linked[]> {
  const linked = await linkedTo(join(staged, "torch", "lib", root));
  return (
    linked
      // The GPU driver installs libcuda.
      .filter(({ name, path }) => !path?.startsWith(staged) && name !== "libcuda.so.1")
      // The system's CUDA libraries do not count: torch needs the versions that its wheel names.
      .map((library) => (/^lib(cu|nv)/.test(library.name) ? { ...library, path: undefined } : library))
  );
}

/** Finds the libraries in the wheels. They take precedence over system libraries, which a system update may remove. */
function found(wheels: readonly Wheel[], linked: readonly Linked[], staged: string): Found[] {
  return linked.flatMap(({ name }) => {
    const all = wheels.flatMap((wheel) => wheel.entries.filter(isLibrary).map((entry) => ({ wheel, entry })));
    const own = all.find(({ entry }) => basename(entry.name) === name);
    return own === undefined || existsSync(join(staged, own.entry.name)) ? [] : [own];
  });
}

function needs(root: string, missing: string): SconceError {
  return new SconceError(
    "native_unavailable",
    `${root} needs ${missing}, which neither this system nor the wheels of torch have; install the system's package of it`,
  );
}

/** The wheels of CUDA libraries that a torch wheel requires. For the CPU, only the two that it links to. */
async function companions(torch: Wheel, options: Staging): Promise<Wheel[]> {
  const direct = requirementsOf(await metadataOf(torch), []);
  const toolkits = direct.filter(({ name }) => name === "cuda-toolkit");
  const inToolkit = await Promise.all(
    toolkits.map(async (toolkit) => requirementsOf(await metadataOf(await wheelOf(toolkit, options)), toolkit.extras)),
  );
  const pattern = options.gpu ? /^nvidia-/ : /^nvidia-cuda-(cupti|runtime)(-cu\d+)?$/;
  const needed = [...direct, ...inToolkit.flat()].filter(({ name }) => pattern.test(name));
  return Promise.all([...new Map(needed.map((one) => [one.name, one])).values()].map((one) => wheelOf(one, options)));
}

function metadataOf(wheel: Wheel): Promise<string> {
  return wheel.text(/^[^/]+\.dist-info\/METADATA$/);
}

async function wheelOf({ name, specifiers }: Requirement, options: Staging): Promise<Wheel> {
  const wheels = await options.index.wheels(name);
  const [newest] = wheels
    .filter((wheel) => runsHere(wheel, options.platform) && isAllowed(wheel.version, specifiers))
    .toSorted((a, b) => compareReleases(b.version.release, a.version.release));
  if (newest !== undefined) return Wheel.open(newest, wheelOptions(options));
  throw unavailable(
    `torch needs ${name}${specifiers}, of which there is no wheel at ${options.index.places}; name an index that has it, or builds for the CPU, with --index`,
  );
}
