import { join } from "node:path";
import { state } from "../../scripts/setup/step.ts";

/** Device of models and number of fronts in tests; environment variables override them. */
const { SCONCE_DEVICE = "cpu", SCONCE_FRONTS = "1" } = process.env;

/**
 * Environment of processes that serve or build. Python takes seconds to start, so builds do not compare with PyTorch.
 */
export const machineEnv = { SCONCE_DEVICE, SCONCE_FRONTS, SCONCE_COMPARE: "false" };

/** Cache of unpacked sources, packed libraries and compiled programs, shared by runs of the tests. */
export const cacheFolder = join(state, "cache", "executables");
