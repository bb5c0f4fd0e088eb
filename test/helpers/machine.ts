import { join } from "node:path";
import { state } from "../../scripts/setup/step.ts";

/** Device of models and number of HTTP processes in tests. Environment variables change both. */
const { SCONCE_DEVICE = "cpu", SCONCE_FRONTS = "1" } = process.env;

/**
 * Environment of commands that serve or build. Builds do not compare outputs with PyTorch, because Python takes
 * seconds to start.
 */
export const machineEnv = { SCONCE_DEVICE, SCONCE_FRONTS, SCONCE_COMPARE: "false" };

/** Cache for unpacked sources, packed libraries and compiled programs. Later runs of the tests use it again. */
export const cacheFolder = join(state, "cache", "executables");
