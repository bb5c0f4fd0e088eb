/** libtorch for CPUs, for programs that contain libtorch: a libtorch for GPUs needs gigabytes of other libraries. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { madeOnce } from "../files/made-once.ts";
import { cacheLocation, secureFolder } from "./cache-folder.ts";
import { folderOfPackage } from "./external-libtorch.ts";
import { libtorchBuild, libtorchRelease } from "./libtorch-build.ts";

/** The torch that the set-up of a checkout has installed. */
const installed = fileURLToPath(new URL("../../../.sconce/torch/torch", import.meta.url));

/** Whether a folder has the CUDA libraries of libtorch. @param lib the folder `lib` of libtorch */
export function isForGpus(lib: string): boolean {
  return existsSync(join(lib, "libtorch_cuda.so"));
}

/**
 * Finds a libtorch for CPUs of the same release: of the set-up, of npm or in the cache. Otherwise installs one into the
 * cache with pip.
 * @param build of a libtorch for GPUs, such as `2.13.0+cu130`
 * @returns a folder with `lib/`
 * @throws SconceError `native_unavailable`
 */
export async function cpuLibtorch(build: string): Promise<string> {
  const release = libtorchRelease(build);
  const cache = cacheLocation(process.env.SCONCE_CACHE_DIR);
  const kept = cache === undefined ? undefined : join(secureFolder(cache), `torch-${release}-cpu`);
  const places = [installed, folderOfPackage(), ...(kept === undefined ? [] : [join(kept, "torch")])];
  const fits = (folder: string) =>
    existsSync(join(folder, "lib/libtorch_cpu.so")) &&
    !isForGpus(join(folder, "lib")) &&
    libtorchRelease(libtorchBuild(folder) ?? "") === release;
  const found = places.find((folder) => folder !== undefined && fits(folder));
  if (found === undefined && kept !== undefined) await madeOnce(kept, (unfinished) => install(release, unfinished));
  const folder = found ?? join(kept ?? "", "torch");
  if (!fits(folder)) throw unavailable(`there is no libtorch ${release} for CPUs`);
  log.info(`libtorch ${build} is for GPUs: taking libtorch ${libtorchBuild(folder)} for CPUs in ${folder}`);
  return folder;
}

async function install(release: string, folder: string): Promise<void> {
  const python = Bun.which("python3") ?? Bun.which("python");
  if (python === null) throw unavailable("there is no Python that could install libtorch for CPUs");
  const index = process.env.SCONCE_TORCH_INDEX ?? "https://download.pytorch.org/whl/cpu";
  log.info(`Installing torch ${release} for CPUs with pip, once: 200 MB`);
  const options = ["--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check", "--index-url", index];
  const child = Bun.spawn([python, "-m", "pip", "install", ...options, "--target", folder, `torch==${release}`], {
    env: { ...process.env, PIP_USER: "0" },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const errors = (await child.stderr.text()).trim().split("\n").at(-1);
  if ((await child.exited) !== 0) throw unavailable(`pip found no torch ${release} in ${index} (${errors})`);
}

function unavailable(why: string): SconceError {
  const fix = "name an index of packages with SCONCE_TORCH_INDEX, or compile with --libtorch external";
  return new SconceError("native_unavailable", why, { fix });
}
