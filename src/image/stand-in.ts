/** Stands in for the compiled executable until there is one. */
import { dirname, join } from "node:path";
import { main } from "../cli.ts";
import { setNativePath } from "../native/addon.ts";

const folder = dirname(process.execPath);
setNativePath(join(folder, "lib", "sconce.node"));
process.env.SCONCE_HOME = join(folder, "model");
const [name = "", ...rest] = process.argv.slice(2);
await main(
  ["predict", "inspect", "--version", "--help"].includes(name) ? [name, ...rest] : ["serve", ...process.argv.slice(2)],
);
