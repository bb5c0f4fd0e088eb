/** Runs a script with the Python whose torch the set-up found, so that one torch writes and runs weights. */

import { pythonVariables, readLibtorch } from "./setup/libtorch.ts";

const python = readLibtorch()?.python;
if (!python) {
  console.error("the libtorch in use came without a Python that has torch; install one, or unset LIBTORCH");
  process.exit(1);
}
const paths = [python.path, process.env.PYTHONPATH].filter(Boolean);
const child = Bun.spawn([python.command, ...process.argv.slice(2)], {
  stdio: ["inherit", "inherit", "inherit"],
  env: { ...process.env, ...pythonVariables(python), ...(paths.length > 0 ? { PYTHONPATH: paths.join(":") } : {}) },
});
process.exitCode = await child.exited;
