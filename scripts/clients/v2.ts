/** Tries the clients of Triton and KServe with every dtype, and Triton's load generator `perf_analyzer`. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { tempDir } from "../../test/helpers/fixture.ts";
import { writeModel } from "../../test/helpers/model-text.ts";
import { storeWith } from "../../test/helpers/server.ts";
import { arrayModel, tensorModel } from "../../test/helpers/tensor-model.ts";
import { root } from "../setup/step.ts";
import { type Environment, environment, sources } from "./environment.ts";

export async function v2Clients(): Promise<void> {
  const python = await environment("v2");
  await using dir = await tempDir();
  const models = [await writeModel(dir, tensorModel, "tensors"), await writeModel(dir, arrayModel, "arrays")];
  await using store = await storeWith(...models);
  await using tensors = await store.serve("lab/tensors");
  await python.run(["python", join(sources, "inference_protocol.py"), tensors.url.host, "lab/tensors"]);
  console.log("✓ tritonclient and kserve: every dtype in JSON and binary, async, compressed requests, errors");
  await python.run(["python", join(sources, "kserve_runtime.py"), join(root, "deploy", "kserve", "runtime.yaml")]);
  console.log("✓ deploy/kserve has the types of KServe and Kubernetes");
  const perf = await environment("perf-analyzer");
  await using arrays = await store.serve("arrays");
  // Sends zeros, because random data contains NaN.
  const what = ["-m", "arrays", "-u", arrays.url.host, "-i", "http", "--input-data", "zero", "-b", "4"];
  // Accepts any spread between measurements (-s), so that a busy machine does not fail the trial.
  const how = ["--concurrency-range", "4", "-p", "2000", "-s", "999"];
  const report = await perf.run(["perf_analyzer", ...what, ...how], { LD_LIBRARY_PATH: await librariesOf(perf) });
  console.log(report.slice(report.indexOf("Request concurrency")).trim());
  console.log("✓ perf_analyzer: load");
}

/** Folders of libraries that perf_analyzer links: one library of Debian, and the CUDA runtime. */
async function librariesOf({ folder, run }: Environment): Promise<string> {
  const debian = join(folder, "debian");
  const libraries = join(debian, "usr/lib/x86_64-linux-gnu");
  if (!existsSync(libraries)) {
    await mkdir(debian, { recursive: true });
    await run(["sh", "-c", `cd "${debian}" && apt-get download --quiet libb64-0d && dpkg-deb --extract libb64*.deb .`]);
  }
  const [cuda = ""] = new Bun.Glob("lib/python*/site-packages/nvidia/cuda_runtime/lib").scanSync({
    cwd: folder,
    absolute: true,
    onlyFiles: false,
  });
  return `${libraries}:${cuda}`;
}
