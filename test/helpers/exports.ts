/** Weights that the Python scripts of this folder export, each into a folder of `.sconce/fixtures`. */
import { join } from "node:path";
import { made } from "./made.ts";

/** Weights with mistakes that authors make in the export. */
export const mistakes = () => exported("mistakes");

/** Programs with the outputs that PyTorch gives for their inputs. */
export const exactPrograms = () => exported("exact");

/** Guards with the values that Python computes. */
export const guardValues = async () => join(await exported("guards"), "guards.json");

/** Networks whose layers libtorch could fold wrongly when it freezes them. */
export const frozenNetworks = () => exported("frozen");

/** Modules with operators whose arguments libtorch does not check. */
export const uncheckedModules = () => exported("unchecked");

/** Networks whose layers are packed. */
export const sameBits = () => exported("same-bits", "same_bits");

/** Networks with argmax and topk, with near ties in their examples. */
export const tiedNetworks = () => exported("ties");

/** Programs that were exported with example inputs of few rows. */
export const fewRows = () => exported("few-rows", "few_rows");

/** Weights for the models of the documentation. */
export const guideWeights = () => exported("guide");

/** Weights that call torchvision's operators, and an operator that no library has. */
export const visionWeights = () => exported("vision");

/** A module whose methods show whether its tensors are copied. */
export const deviceTensors = async () => join(await exported("device-tensors", "device_tensors"), "device-tensors.pt");

/** An exported program that appends a row to the cache of each item. */
export const appendingProgram = async () => join(await exported("device-tensors", "device_tensors"), "append.pt2");

/** Runs the writer's methods on the meta device. Rejects if an operator has tensors on several devices. */
export function writerDevices(): Promise<string> {
  const weights = join(import.meta.dir, "../../examples/writer/writer.pt");
  return exported("writer-devices", "writer_devices", [weights]);
}

function exported(name: string, script = name, sources: readonly string[] = []): Promise<string> {
  return made({ name, script: join(import.meta.dir, `${script}.py`), sources });
}
