/** A library that simulates two CUDA devices in main memory, for machines without a GPU. */
import { join } from "node:path";
import { made } from "./made.ts";

/** The library's path; the first call compiles it, which takes half a minute or more. A process cannot unload it. */
export async function fakeCuda(): Promise<string> {
  const here = join(import.meta.dir, "fake-cuda");
  const sources = ["device.cc", "memory.h", "streams.h"].map((name) => join(here, name));
  return join(await made({ name: "fake-cuda", script: join(here, "make.py"), sources }), "device.so");
}
