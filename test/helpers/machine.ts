/** What else depends on the machine: where models run, and how many fronts a server has. With these variables set tests take others. */
const { SCONCE_DEVICE = "cpu", SCONCE_FRONTS = "1" } = process.env;

/** Of a process that serves or builds. */
export const machineEnv = { SCONCE_DEVICE, SCONCE_FRONTS };
