/** Settings of the machine for tests: the device of models and the number of fronts. With these variables set tests take others. */
const { SCONCE_DEVICE = "cpu", SCONCE_FRONTS = "1" } = process.env;

/** Variables of processes that serve or build. Python takes seconds to start, so builds do not compare with PyTorch. */
export const machineEnv = { SCONCE_DEVICE, SCONCE_FRONTS, SCONCE_COMPARE: "false" };
