/** Runs the tests with another addon and its libtorch. The test processes load this file first (`--preload`). */
import { join } from "node:path";
import { loadLibtorch } from "../../src/machine/libtorch/external-libtorch.ts";
import { setNativeLocation } from "../../src/machine/libtorch/native-location.ts";
import { run } from "../setup/command.ts";
import { root } from "../setup/step.ts";

const { SCONCE_TRIED_ADDON: path, SCONCE_TRIED_LIBTORCH: libtorch } = process.env;
if (path !== undefined && libtorch !== undefined) {
  loadLibtorch(libtorch);
  setNativeLocation({ path, fix: "compile it again" });
}

/** Runs the tests of native code with an addon, on weights that the set-up's torch wrote. */
export async function tryAddon(addon: string, folder: string): Promise<void> {
  const tests = ["native", "native-call", "native-programs", "long/native-packages", "long/packed-layers"].map((name) =>
    join(root, "test", `${name}.test.ts`),
  );
  await run([process.execPath, "--no-install", "test", "--preload", import.meta.path, ...tests], {
    verbose: false,
    env: { SCONCE_TRIED_ADDON: addon, SCONCE_TRIED_LIBTORCH: folder },
  });
}
