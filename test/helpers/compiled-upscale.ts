/** The upscale example as an AOTInductor package. */
import { join } from "node:path";
import { made } from "./made.ts";

const example = join(import.meta.dir, "../../examples/upscale");

/** @returns the path of the package; compiling it takes most of a minute the first time */
export async function compiledUpscale(): Promise<string> {
  const sources = ["upscale.pt2", "network.py"].map((name) => join(example, name));
  return join(await made({ name: "upscale", script: join(example, "export.py"), sources }), "compiled.pt2");
}
